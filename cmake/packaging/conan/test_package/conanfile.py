# SPDX-License-Identifier: MIT
"""Builds and runs a program with the package that conan create made."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class PosencTest(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["WITH_EIGEN"] = bool(self.dependencies["posenc"].options.with_eigen)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "core"), env="conanrun")
            if self.dependencies["posenc"].options.with_eigen:
                self.run(os.path.join(self.cpp.build.bindir, "app"), env="conanrun")
