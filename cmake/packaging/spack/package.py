# SPDX-License-Identifier: MIT
"""Recipe for Spack 1. A package repository of your own holds it as packages/posenc/package.py."""
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Posenc(CMakePackage):
    """Positional encodings for transformers, header-only, on Eigen tensors or plain memory."""

    git = "<path or url of your copy of posenc>"

    license("MIT")

    version("main", branch="main")

    variant("eigen", default=True, description="The target posenc::posenc, which needs Eigen")

    depends_on("cxx", type="build")
    depends_on("cmake@3.23:", type="build")
    depends_on("eigen@3.4:", when="+eigen")

    # C++20, as these compilers have it.
    conflicts("%gcc@:11")
    conflicts("%clang@:13")

    def cmake_args(self):
        return [
            self.define_from_variant("POSENC_WITH_EIGEN", "eigen"),
            self.define("POSENC_BUILD_TESTS", False),
            self.define("POSENC_BUILD_BENCH", False),
            self.define("POSENC_BUILD_EXAMPLES", False),
        ]
