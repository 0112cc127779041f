// One call of the kernel: what op.cpp fills in from tensors and kernel.cpp computes. Knows no torch, so that each
// side compiles alone.
#pragma once
#include <cstdint>

namespace dwindle {

using Index = std::int64_t;
constexpr int TERMS = 9;  // of the polynomials, as in polynomial.py

enum class Type { float32, float64, bfloat16, float16 };
enum Mode { PLAIN = 0, DIM = 1, DYDIM = 2 };
enum Kind { NONE = 0, LOG = 1, POWER = 2 };

// A g of the Box-Cox family, whose slope is s (1 + c)^(p - 1), and its polynomial.
struct Curve {
  Kind kind;
  double s, p;
  const double* terms;
};

// Strides count elements; the last dimension of q, k, v, dout is dense.
struct Problem {
  Type type;  // of q, k, v, out. The rest is float, or double for double.
  Index B, H, Hk, T, S, D, Dv;
  Index rows;     // target rows of a block
  Index threads;
  const void *q, *k, *v;
  Index q_stride[3], k_stride[3], v_stride[3];  // batch, head, row
  const void* bias;                             // (B, H, T, S) or null, strides may be 0
  Index bias_stride[4];
  const std::uint8_t* mask;                     // (B, H, T, S) bool or null
  Index mask_stride[4];
  const std::uint8_t* kept;                     // (B, H, S) bool or null: protected positions
  Index kept_stride[3];
  double scale, softcap;                        // softcap 0: none
  double dropout;
  Index seed;
  Mode mode;
  bool detach_gate;
  Curve g1, g2;
  void* out;                                    // (B, H, T, Dv)
  void *total, *peak;                           // (B, H, S): forward: in and out; backward: at the start, or null
  void* norms;                                  // (B, H, T, 2) or null: largest score r, and 1 / sum of e^(score - r)
  void *totals, *peaks;                         // (B, H, blocks - 1, S) or null: coverage between blocks
  // Backward only.
  const void* dout;
  Index dout_stride[3];
  void *dq, *dk, *dv;                           // dense; dk and dv have Hk heads
  void* dbias;                                  // (B, H, T, S) or null, strides may be 0: sums then
  Index dbias_stride[4];
  void *dtotal, *dpeak;                         // (B, H, S) or null: of the coverage after, then of that before
};

// Both throw std::bad_alloc before any work if there is no memory for the tiles.
void forward(const Problem& p);
void backward(const Problem& p);

}  // namespace dwindle
