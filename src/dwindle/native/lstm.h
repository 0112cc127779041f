// One direction of an LSTM over padded rows, and its gradients. A step on padding leaves the state
// as it is.
#pragma once
#include "layer.h"

namespace dwindle {

template <class C> struct Lstm {
  Index B, S, H;
  bool backwards;
  const C* weight;           // (4H, H): from the hidden state to the gates
  const std::uint8_t* mask;  // (B, S): steps that are there

  Index place(Index n) const { return backwards ? S - 1 - n : n; }
  bool there(Index b, Index n) const { return mask[b * S + place(n)]; }
  // Where step n of row b lies in an array (B, S, size).
  template <class X> X* at(X* p, Index b, Index n, Index size) const {
    return p + (b * S + place(n)) * size;
  }
};

// `gates` (B, S, 4H): what the inputs give, then opened. Out: `states` (B, S, H) and `cells` (B, S,
// H).
template <class C> void forward(const Lstm<C>& x, C* gates, C* states, C* cells, Index threads) {
  const auto weight = Packed<C>::turned(x.weight, 4 * x.H, x.H);
  in_parts(x.B, threads, [&](Index from, Index to) {
    const Index rows = to - from, wide = weight.stride();
    std::vector<C> hidden(rows * x.H), cell(rows * x.H), sums(rows * wide);
    for (Index n = 0; n < x.S; ++n) {
      for (Index r = 0; r < rows; ++r)
        copy(4 * x.H, x.at(gates, from + r, n, 4 * x.H), &sums[r * wide]);
      weight.add_product(rows, hidden.data(), x.H, sums.data());
      for (Index r = 0; r < rows; ++r) {
        C *h = &hidden[r * x.H], *c = &cell[r * x.H];
        if (x.there(from + r, n)) {
          lstm_cell(x.H, &sums[r * wide], c, h, c);
          copy(4 * x.H, &sums[r * wide], x.at(gates, from + r, n, 4 * x.H));
        }
        copy(x.H, h, x.at(states, from + r, n, x.H));
        copy(x.H, c, x.at(cells, from + r, n, x.H));
      }
    }
  });
}

// In: `opened` gates, `cells`, and the gradients of the states (B, S, H) and of the last cell (B,
// H). Out: `dgates`.
template <class C> void backward(const Lstm<C>& x, const C* opened, const C* cells,
                                 const C* dstates, const C* dlast, C* dgates, Index threads) {
  const auto weight = Packed<C>::straight(x.weight, 4 * x.H, x.H);
  in_parts(x.B, threads, [&](Index from, Index to) {
    const Index rows = to - from, wide = weight.stride(), gates = 4 * x.H;
    const std::vector<C> zero(x.H);
    std::vector<C> dhidden(rows * wide), dcell(dlast + from * x.H, dlast + to * x.H),
        back(rows * gates);
    for (Index n = x.S - 1; n >= 0; --n) {
      for (Index r = 0; r < rows; ++r) {
        const Index b = from + r;
        add(x.H, x.at(dstates, b, n, x.H), &dhidden[r * wide]);
        C* to_gates = x.at(dgates, b, n, gates);
        if (x.there(b, n)) {
          const C* before = n ? x.at(cells, b, n - 1, x.H) : zero.data();
          lstm_cell_backward(x.H, x.at(opened, b, n, gates), before, x.at(cells, b, n, x.H),
                             &dhidden[r * wide], &dcell[r * x.H], to_gates);
          std::fill(&dhidden[r * wide], &dhidden[r * wide] + wide, C(0));
        } else {
          std::fill(to_gates, to_gates + gates, C(0));
        }
        copy(gates, to_gates, &back[r * gates]);
      }
      weight.add_product(rows, back.data(), gates, dhidden.data());
    }
  });
}

}  // namespace dwindle
