# SPDX-License-Identifier: MIT
"""What a recording knows of the input of its model."""
TOKENS = 24  # of a sequence; of an image it is learned from the first attention module
GRIDS = {}  # of images: for an order of patches, its rows and columns; empty for text
