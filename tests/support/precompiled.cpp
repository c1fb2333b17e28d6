// SPDX-License-Identifier: MIT
// Nothing: the headers that tests share are compiled before it.
