# SPDX-License-Identifier: MIT
"""Recipe for Conan 2: conan create cmake/packaging/conan, from the top of the repository."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class PosencConan(ConanFile):
    name = "posenc"
    description = "Positional encodings for transformers, header-only, on Eigen tensors or plain memory"
    license = "MIT"
    topics = ("transformer", "positional-encoding", "rope", "alibi", "attention", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"with_eigen": [True, False]}
    default_options = {"with_eigen": True}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "../../../include/posenc/core/version.hpp"))
        self.version = ".".join(re.findall(r"#define POSENC_VERSION_\w+ (\d+)", header))
        self.version += re.search(r'#define POSENC_VERSION_SUFFIX "(.*)"', header).group(1)

    def export_sources(self):
        top = os.path.join(self.recipe_folder, "../../..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, src=top, dst=self.export_sources_folder)

    def requirements(self):
        # Its headers are used by posenc's own.
        if self.options.with_eigen:
            self.requires("eigen/[>=3.4 <6]", transitive_headers=True)

    def package_id(self):
        self.info.settings.clear()

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        # CMake only copies headers here: CMakeDeps gives consumers Eigen.
        toolchain.cache_variables["POSENC_WITH_EIGEN"] = False
        for part in ("TESTS", "BENCH", "EXAMPLES"):
            toolchain.cache_variables[f"POSENC_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "share"))
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "posenc")
        # The target of all components, which has the name of the package if omitted. That is a component's here.
        self.cpp_info.set_property("cmake_target_name", "posenc::all")
        # A component for each of CMake's targets: posenc::core, posenc::posenc.
        self._add_component("core", "posenc-core", [])
        if self.options.with_eigen:
            self._add_component("posenc", "posenc", ["core", "eigen::eigen"])

    def _add_component(self, name, pkg_config_name, requires):
        component = self.cpp_info.components[name]
        component.set_property("cmake_target_name", f"posenc::{name}")
        component.set_property("pkg_config_name", pkg_config_name)
        component.bindirs = []
        component.libdirs = []
        component.requires = requires
