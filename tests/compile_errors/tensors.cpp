// SPDX-License-Identifier: MIT
// Tensor adapters and their arguments.
namespace user {
struct Volume {
  float* values;
};
struct Sheet {
  float* values;
};
/// A user's bfloat16 class that posenc does not know.
struct Brain16 {
  unsigned short bits = 0;
  Brain16() = default;
  explicit Brain16(float) {}
  explicit operator float() const { return 0; }
};
/// A user's bfloat16 class with StorageFormatOf.
struct Known16 : Brain16 {
  using Brain16::Brain16;
};
/// A format without conversions.
struct Mute16 {
  unsigned short bits;
};
}  // namespace user
template <>
struct posenc::StorageFormatOf<user::Known16> {
  static constexpr auto value = posenc::StorageFormat::Bfloat16;
};
template <>
struct posenc::StorageFormatOf<user::Mute16> {
  static constexpr auto value = posenc::StorageFormat::Bfloat16;
};
template <>
struct posenc::TensorTraits<user::Volume> {
  static constexpr std::size_t rank = 3;
  static Strided<float, 3> describe(const user::Volume& x) { return {x.values, {}, {}}; }
};
template <>
struct posenc::TensorTraits<user::Sheet> {
  static constexpr std::size_t rank = 2;
  static constexpr bool row_major = true;
  static Strided<float, 2> describe(const user::Sheet& x) { return {x.values, {}, {}}; }
};

void program(Row<float, 4>& row4, Row<float, 3>& row3, Column<float, 4>& column4,
             Column<float, 3>& column3, RowMatrix& rows, Eigen::MatrixXf& columns,
             const Eigen::MatrixXf& constant, Eigen::VectorXf& vector, user::Volume& volume,
             user::Sheet& sheet, Row<int, 4>& integers, Row<bool, 4>& mask, float* pointer) {
#if CASE == 0
  // compiles
  (void)posenc::bshd(row4), (void)posenc::bhsd(row4), (void)posenc::shd(row3);
  (void)posenc::hsd(row3), (void)posenc::bsd(row3), (void)posenc::sd(rows);
  (void)posenc::dhsb(column4), (void)posenc::dshb(column4), (void)posenc::dhs(column3);
  (void)posenc::dsh(column3), (void)posenc::dsb(column3), (void)posenc::ds(columns);
  (void)posenc::head_sd(rows), (void)posenc::head_ds(columns);
  (void)posenc::sd(rows.topRows(3)), (void)posenc::ds(columns.leftCols(3));
  (void)posenc::sd(columns.transpose()), (void)posenc::ds(constant), (void)posenc::ds(vector);
  (void)posenc::sd(Eigen::Map<RowMatrix>(pointer, 2, 3)), (void)posenc::bhqk(mask);
  (void)posenc::sd(sheet), (void)posenc::table_view(columns.transpose()), (void)volume;
  (void)posenc::bshd(Eigen::TensorMap<Row<float, 4>>(pointer, 1, 2, 3, 4)), (void)integers;
  (void)posenc::HeadsView<user::Known16>{}, (void)posenc::HeadsView<const posenc::Half>{};
  (void)posenc::EmbeddingsView<posenc::Bfloat16>{}, (void)posenc::HeadsView<Eigen::half>{};
#elif CASE == 1
  // error: posenc::bshd takes row-major tensors x(b, s, h, d), but this one is column-major, as Eigen's matrices and column vectors are. If it is indexed x(d, h, s, b), write dhsb(x). If it is indexed x(b, s, h, d), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)
  (void)posenc::bshd(column4);
#elif CASE == 2
  // error: posenc::bhsd takes row-major tensors x(b, h, s, d) ... this one is column-major ... If it is indexed x(d, s, h, b), write dshb(x). If it is indexed x(b, h, s, d), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)
  (void)posenc::bhsd(column4);
#elif CASE == 3
  // error: posenc::shd takes row-major tensors x(s, h, d) ... this one is column-major ... If it is indexed x(d, h, s), write dhs(x). If it is indexed x(s, h, d), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)
  (void)posenc::shd(column3);
#elif CASE == 4
  // error: posenc::hsd takes row-major tensors x(h, s, d) ... this one is column-major ... If it is indexed x(d, s, h), write dsh(x). If it is indexed x(h, s, d), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)
  (void)posenc::hsd(column3);
#elif CASE == 5
  // error: posenc::bsd takes row-major tensors x(b, s, d) ... this one is column-major ... If it is indexed x(d, s, b), write dsb(x). If it is indexed x(b, s, d), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)
  (void)posenc::bsd(column3);
#elif CASE == 6
  // error: posenc::sd takes row-major tensors x(s, d) ... this one is column-major ... If it is indexed x(d, s), write ds(x). If it is indexed x(s, d), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)
  (void)posenc::sd(columns);
#elif CASE == 7
  // error: posenc::dhsb takes column-major tensors x(d, h, s, b), but this one is row-major. If it is indexed x(b, s, h, d), write bshd(x). If it is indexed x(d, h, s, b), its features are not contiguous: copy it to a column-major tensor (Eigen::ColMajor)
  (void)posenc::dhsb(row4);
#elif CASE == 8
  // error: posenc::dshb takes column-major tensors x(d, s, h, b) ... this one is row-major ... If it is indexed x(b, h, s, d), write bhsd(x). If it is indexed x(d, s, h, b), its features are not contiguous: copy it to a column-major tensor (Eigen::ColMajor)
  (void)posenc::dshb(row4);
#elif CASE == 9
  // error: posenc::dhs takes column-major tensors x(d, h, s) ... this one is row-major ... If it is indexed x(s, h, d), write shd(x). If it is indexed x(d, h, s), its features are not contiguous: copy it to a column-major tensor (Eigen::ColMajor)
  (void)posenc::dhs(row3);
#elif CASE == 10
  // error: posenc::dsh takes column-major tensors x(d, s, h) ... this one is row-major ... If it is indexed x(h, s, d), write hsd(x). If it is indexed x(d, s, h), its features are not contiguous: copy it to a column-major tensor (Eigen::ColMajor)
  (void)posenc::dsh(row3);
#elif CASE == 11
  // error: posenc::dsb takes column-major tensors x(d, s, b) ... this one is row-major ... If it is indexed x(b, s, d), write bsd(x). If it is indexed x(d, s, b), its features are not contiguous: copy it to a column-major tensor (Eigen::ColMajor)
  (void)posenc::dsb(row3);
#elif CASE == 12
  // error: posenc::ds takes column-major tensors x(d, s) ... this one is row-major ... If it is indexed x(s, d), write sd(x). If it is indexed x(d, s), its features are not contiguous: copy it to a column-major tensor (Eigen::ColMajor)
  (void)posenc::ds(rows);
#elif CASE == 13
  // error: posenc::table_view takes row-major tensors only, but this one is column-major: make it row-major (Eigen::RowMajor)
  (void)posenc::table_view(columns);
#elif CASE == 14
  // error: posenc::bhqk takes row-major tensors only
  (void)posenc::bhqk(column4);
#elif CASE == 15
  // error: posenc::hqk takes row-major tensors only
  (void)posenc::hqk(column3);
#elif CASE == 16
  // error: posenc::qk takes row-major tensors only
  (void)posenc::qk(columns);
#elif CASE == 17
  // error: posenc::bk takes row-major tensors only
  (void)posenc::bk(columns.topRows(2));
#elif CASE == 18
  // error: posenc::bhq takes row-major tensors only
  (void)posenc::bhq(column3);
#elif CASE == 19
  // error: posenc: a view of this temporary would outlive it
  (void)posenc::sd(RowMatrix(2, 3));
#elif CASE == 20
  // error: posenc: a view of this temporary would outlive it
  (void)posenc::bshd(std::move(row4));
#elif CASE == 21
  // error: posenc: a view of this temporary would outlive it
  (void)posenc::ds(Eigen::Ref<const Eigen::MatrixXf>(columns));
#elif CASE == 22
  // error: posenc: a view of this temporary would outlive it
  (void)posenc::sd(user::Sheet{pointer});
#elif CASE == 23
  // error: posenc: the TensorTraits of this type must define `static constexpr bool row_major`
  (void)posenc::bsd(volume);
#elif CASE == 24
  // error: posenc: the tensor's rank is not the number of letters
  (void)posenc::bsd(row4);
#elif CASE == 25
  // error: posenc: the tensor's rank is not the number of letters
  (void)posenc::bsd(columns);
#elif CASE == 26
  // error: posenc: this type is not a tensor that posenc can read
  (void)posenc::bshd(row4 * 2.0F);
#elif CASE == 27
  // error: posenc: this type is not a tensor that posenc can read
  (void)posenc::sd(rows + rows);
#elif CASE == 28
  // error: posenc: this type is not a tensor that posenc can read
  (void)posenc::bshd(pointer);
#elif CASE == 29
  // error: posenc: elements of a tensor must be float, double or a 16-bit
  (void)posenc::bshd(integers);
#elif CASE == 30
  // error: posenc: elements of a tensor must be float, double or a 16-bit
  const posenc::EmbeddingsView<unsigned char> bytes{};
  (void)bytes;
#elif CASE == 31
  // error: posenc: elements of a tensor ... read 16-bit integers as posenc::Bfloat16 or posenc::Half
  (void)posenc::HeadsView<const std::uint16_t>{};
#elif CASE == 32
  // error: posenc: elements of a tensor ... read 16-bit integers as posenc::Bfloat16 or posenc::Half
  const posenc::KvCache<std::int16_t> cache({.kv_heads = 2, .head_dim = 8, .capacity = 8});
#elif CASE == 33
  // error: posenc: elements of a tensor must be float, double or a 16-bit float of known format. Define the format of this class by a specialisation of posenc::StorageFormatOf
  (void)posenc::HeadsView<user::Brain16>{};
#elif CASE == 34
  // error: posenc: elements of a tensor must be float, double or a 16-bit float of known format. Define the format of this class by a specialisation of posenc::StorageFormatOf
  const posenc::KvCache<user::Brain16> cache({.kv_heads = 2, .head_dim = 8, .capacity = 8});
#elif CASE == 35
  // error: posenc: elements of a tensor must be float, double or a 16-bit float: posenc::Half, posenc::Bfloat16
  (void)posenc::EmbeddingsView<user::Mute16>{};
#elif CASE == 36
  // error: posenc: elements of a tensor must be float, double or a 16-bit float: posenc::Half, posenc::Bfloat16
  (void)posenc::HeadsView<long double>{};
#elif CASE == 37
  // error: posenc: elements of a tensor must be float, double or a 16-bit float. The type of an integer
  const posenc::Learned learned(posenc::MatrixView<const std::uint16_t>{});
#elif CASE == 38
  // error: posenc::head_sd takes row-major tensors x(s, d) ... If it is indexed x(d, s), write head_ds(x). If it is indexed x(s, d), its features are not contiguous
  (void)posenc::head_sd(columns);
#elif CASE == 39
  // error: posenc::head_ds takes column-major tensors x(d, s) ... If it is indexed x(s, d), write head_sd(x). If it is indexed x(d, s), its features are not contiguous
  (void)posenc::head_ds(rows);
#elif CASE == 40
  // error: posenc: a view of this temporary would outlive it
  (void)posenc::head_sd(RowMatrix(2, 3));
#endif
}
