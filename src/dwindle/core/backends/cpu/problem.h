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
  Index P;        // the first so many source positions have coverage; S unless a source is given
  Index rows;     // target rows of a block
  Index threads;
  const void *q, *k, *v;
  Index q_stride[3], k_stride[3], v_stride[3];  // batch, head, row
  const void* bias;                             // (B, H, T, S) or null, strides may be 0
  Index bias_stride[4];
  const std::uint8_t* mask;                     // (B, H, T, S) bool or null
  Index mask_stride[4];
  const std::uint8_t* is_protected;             // (B, H, P) bool or null: positions that keep their plain weight
  Index protected_stride[3];
  const std::uint8_t* source;                   // (B, P) bool or null: all; others keep theirs and have no coverage
  Index source_stride;                          // from item to item
  const std::uint8_t* felt;                     // (B, T) bool or null: all; rows that feel coverage and add to it
  Index felt_stride;
  double scale, softcap;                        // softcap 0: none
  double dropout;
  Index seed;
  Mode mode;
  bool detach_gate, renormalise, share_heads;
  double least_mass;                            // of a row, for the gradient to flow through its renormalising
  Curve g1, g2;
  void* out;                                    // (B, H, T, Dv)
  void *total, *peak;                           // (B, H, P): forward: in and out; backward: at the start, or null
  void* norms;                                  // (B, H, T, norm_size()) or null: see there
  void *totals, *peaks;                         // (B, H, blocks - 1, P) or null: coverage between blocks
  // Backward only.
  const void* dout;
  Index dout_stride[3];
  void *dq, *dk, *dv;                           // dense; dk and dv have Hk heads
  void* dbias;                                  // (B, H, T, S) or null, strides may be 0: sums then
  Index dbias_stride[4];
  void *dtotal, *dpeak;                         // (B, H, P) or null: of the coverage after, then of that before

  // How many heads have a coverage of their own. With `share_heads` H is 1 in all shapes of coverage.
  Index coverages() const { return share_heads ? 1 : H; }
  // What is saved of a row: its largest score r and 1 / sum of e^(score - r); if it is renormalised also its factor,
  // and 1 / its mass, or 0 where the factor is a constant.
  Index norm_size() const { return renormalise ? 4 : 2; }
};

// Both throw std::bad_alloc before any work if there is no memory for the tiles.
void forward(const Problem& p);
void backward(const Problem& p);

}  // namespace dwindle
