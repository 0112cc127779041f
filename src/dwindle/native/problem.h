// One call of attention: sizes, strides, addresses and the rule.
#pragma once
#include <cstdint>

#include "vocabulary.h"  // Mode, Kind, TERMS, RuleNumbers: written from vocabulary.py by each build

namespace dwindle {

using Index = std::int64_t;

// A g of the Box-Cox family, whose slope is s (1 + c)^(p - 1), and its polynomial.
struct Curve {
  Kind kind;
  double s, p;
  const double* terms;
};

// Strides count elements; the last dimension of q, k, v, dout is dense. q, k, v, out and their
// gradients are of the type in memory, the rest is of that of the arithmetic.
struct Problem {
  Index B, H, Hk, T, S, D, Dv;
  Index P;     // the first so many source positions have coverage; S unless a source is given
  Index rows;  // target rows of a block
  Index threads;
  const void *q, *k, *v;
  Index q_stride[3], k_stride[3], v_stride[3];  // batch, head, row
  const void* bias;                             // (B, H, T, S) or null, strides may be 0
  Index bias_stride[4];
  const std::uint8_t* mask;  // (B, H, T, S) bool or null
  Index mask_stride[4];
  // (B, H, P) bool or null: positions that keep their plain weight.
  const std::uint8_t* is_protected;
  Index protected_stride[3];
  const std::uint8_t* source;  // (B, P) bool or null: all; others keep theirs and have no coverage
  Index source_stride;         // from item to item
  const std::uint8_t* felt;    // (B, T) bool or null: all; rows that feel coverage and add to it
  Index felt_stride;
  double scale, softcap;  // softcap 0: none
  double dropout;
  Index seed;
  Mode mode;
  bool detach_gate, renormalise, share_heads;
  double least_mass;  // of a row, for the gradient to flow through its renormalising
  Curve g1, g2;
  void* out;             // (B, H, T, Dv)
  void *total, *peak;    // (B, H, P): forward: in and out; backward: at the start, or null
  void* norms;           // (B, H, T, norm_size()) or null: see there
  void *totals, *peaks;  // (B, H, blocks - 1, P) or null: coverage between blocks
  // Backward only.
  const void* dout;
  Index dout_stride[3];
  void *dq, *dk, *dv;  // dense; dk and dv have Hk heads
  void* dbias;         // (B, H, T, S) or null, strides may be 0: sums then
  Index dbias_stride[4];
  void *dtotal, *dpeak;  // (B, H, P) or null: of the coverage after, then of that before

  // How many heads have a coverage of their own. With `share_heads` H is 1 in all shapes of
  // coverage.
  Index coverages() const { return share_heads ? 1 : H; }
  // What is saved of a row: its largest score r and 1 / sum of e^(score - r); if it is renormalised
  // also its factor, and 1 / its mass, or 0 where the factor is a constant.
  Index norm_size() const { return renormalise ? 4 : 2; }
};

}  // namespace dwindle
