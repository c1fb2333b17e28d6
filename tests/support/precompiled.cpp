// SPDX-License-Identifier: MIT
// Empty source: the headers that tests share are precompiled with it.
