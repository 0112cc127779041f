// Small matrix products for tiles in cache: one register-blocked micro-kernel, and the packing
// around it.
//
// Everything is padded to whole vectors, so the micro-kernel has no edges but the number of its
// rows; a strip is `width` columns (two vectors), the last one may be half of that. Knows no
// attention.
#pragma once
#include <algorithm>

#include "vector.h"

namespace dwindle {

// The left side of a product: element (i, k) lies at p[i * row + (k / inner) * jump + (k % inner) *
// column]. `inner` steps follow each other, then comes a jump: a row of a tile that is stored strip
// by strip.
template <class C> struct Left {
  const C* p;
  Index row, column, inner, jump;
};

// out (M x V vectors) = or += left (M x depth) right; M and V are templates so that the sums stay
// in registers.
template <class C, int M, int V> INLINE void micro(Left<C> left, Index depth, const C* right,
                                                   Index ld, C* out, Index ldo, bool add) {
  constexpr int n = Simd<C>::lanes;
  Vec<C> sums[M][V];
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < V; ++j) sums[i][j] = add ? load(out + i * ldo + j * n) : Vec<C>{};
  for (; depth > 0; depth -= left.inner, left.p += left.jump) {
    const C* a = left.p;
    for (Index k = std::min(depth, left.inner); k > 0; --k, a += left.column, right += ld) {
      Vec<C> r[V];
      for (int j = 0; j < V; ++j) r[j] = load(right + j * n);
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        const Vec<C> x = spread(a[i * left.row]);
        for (int j = 0; j < V; ++j) sums[i][j] += x * r[j];
      }
    }
  }
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < V; ++j) store(out + i * ldo + j * n, sums[i][j]);
}

// All rows of V vectors of columns, in groups of nearly equal size: 32 rows are 5 5 5 5 6 6, not 6
// 6 6 6 6 2.
template <class C, int V> inline void vector_product(Index rows, Left<C> left, Index depth,
                                                     const C* right, Index ld, C* out, Index ldo,
                                                     bool add) {
  const Index groups = (rows + 5) / 6;
  for (Index g = 0; g < groups; ++g) {
    const Index from = g * rows / groups, to = (g + 1) * rows / groups;
    Left<C> part = left;
    part.p += from * left.row;
    C* target = out + from * ldo;
    switch (to - from) {
      case 1: micro<C, 1, V>(part, depth, right, ld, target, ldo, add); break;
      case 2: micro<C, 2, V>(part, depth, right, ld, target, ldo, add); break;
      case 3: micro<C, 3, V>(part, depth, right, ld, target, ldo, add); break;
      case 4: micro<C, 4, V>(part, depth, right, ld, target, ldo, add); break;
      case 5: micro<C, 5, V>(part, depth, right, ld, target, ldo, add); break;
      default: micro<C, 6, V>(part, depth, right, ld, target, ldo, add);
    }
  }
}

// One strip of out = left right; the second vector is zero where no more than one is wanted.
template <class C> inline void strip_product(Index rows, Index columns, Left<C> left, Index depth,
                                             const C* right, C* out) {
  constexpr int n = Simd<C>::lanes, width = Simd<C>::width;
  if (columns > n) return vector_product<C, 2>(rows, left, depth, right, width, out, width, false);
  vector_product<C, 1>(rows, left, depth, right, width, out, width, false);
  for (Index i = 0; i < rows; ++i) store(out + i * width + n, Vec<C>{});
}

// out (rows x columns, in whole vectors) += left right, strip by strip.
template <class C> inline void product(Index rows, Index columns, Left<C> left, Index depth,
                                       const C* right, Index ld, C* out, Index ldo) {
  constexpr int n = Simd<C>::lanes;
  Index j = 0;
  for (; j + n < columns; j += 2 * n)
    vector_product<C, 2>(rows, left, depth, right + j, ld, out + j, ldo, true);
  if (j < columns) vector_product<C, 1>(rows, left, depth, right + j, ld, out + j, ldo, true);
}

INLINE Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

// Row stride of a packed matrix: whole strips, and an odd number of cache lines, so that a column
// of it does not fall into one set of the cache.
template <class C> inline Index padded(Index columns) {
  const Index line = 64 / sizeof(C),
              lines = round_up(round_up(columns, Simd<C>::width), line) / line;
  return (lines % 2 ? lines : lines + 1) * line;
}

// Rows as they are, times `scale`, zeros behind them.
template <class C, class IO> inline void pack_rows(const IO* from, Index stride, Index rows,
                                                   Index columns, C scale, C* to, Index ld) {
  constexpr int n = Simd<C>::lanes;
  for (Index i = 0; i < rows; ++i, from += stride, to += ld) {
    Index j = 0;
    for (; j + n <= columns; j += n) store(to + j, load_as<C>(from + j) * scale);
    for (; j < columns; ++j) to[j] = C(widen(from[j])) * scale;
    for (; j < ld; ++j) to[j] = 0;
  }
}

// A strip of `width` rows turned into columns: to[d * width + i] = from[i][d]; rows beyond `rows`
// are zero.
template <class C, class IO>
inline void pack_columns(const IO* from, Index stride, Index rows, Index columns, C* to) {
  constexpr int n = Simd<C>::lanes, width = Simd<C>::width;
  // The next strip, which is wanted as soon as this one is multiplied.
  for (Index i = 0; i < width; ++i)
    for (Index d = 0; d < columns; d += 64 / sizeof(IO))
      __builtin_prefetch(from + (width + i) * stride + d);
  for (Index half = 0; half < width; half += n) {
    for (Index d = 0; d < columns; d += n) {
      Vec<C> square[n];
      const bool whole = d + n <= columns;
      for (Index i = 0; i < n; ++i) {
        const IO* row = from + (half + i) * stride + d;
        if (half + i >= rows) square[i] = Vec<C>{};
        else square[i] = whole ? load_as<C>(row) : load_some<C>(row, columns - d);
      }
      transpose<C>(square);
      for (Index j = 0; j < n && d + j < columns; ++j)
        store(to + (d + j) * width + half, square[j]);
    }
  }
}

// The largest squared length of a column of a packed strip.
template <class C> inline C longest_square(const C* packed, Index rows) {
  constexpr int n = Simd<C>::lanes;
  Vec<C> sums[2] = {};
  for (Index d = 0; d < rows; ++d, packed += 2 * n) {
    sums[0] += load(packed) * load(packed);
    sums[1] += load(packed + n) * load(packed + n);
  }
  return top<C>(larger<C>(sums[0], sums[1]));
}

// A row times `scale` into memory, summed over the same row of `parts` matrices at parts(m).
template <class C, class IO, class Parts>
inline void write_row(int count, Parts parts, C scale, Index columns, IO* to) {
  constexpr int n = Simd<C>::lanes;
  Index d = 0;
  for (; d + n <= columns; d += n) {
    Vec<C> x = load(parts(0) + d);
    for (int m = 1; m < count; ++m) x += load(parts(m) + d);
    x *= scale;
    if constexpr (sizeof(IO) == sizeof(C)) store((C*)to + d, x);
    else
      for (int j = 0; j < n; ++j) to[d + j] = narrow<IO, C>(x[j]);
  }
  for (; d < columns; ++d) {
    C x = 0;
    for (int m = 0; m < count; ++m) x += parts(m)[d];
    to[d] = narrow<IO, C>(x * scale);
  }
}

}  // namespace dwindle
