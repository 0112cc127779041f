// Rows of scores over a vocabulary: the log-probability of a word that is written or copied, and
// the gradient of its row.
#pragma once
#include "layer.h"

namespace dwindle {

template <class C> struct Rows {
  Index N, V;
  // (N, V): without their bias, then e^(score - highest), less the row's sum at the word itself.
  C* scores;
  const C* bias;            // (V)
  const std::int64_t* ids;  // (N), the words
  // (N): the log-probability of being copied, and the part that each has in the whole.
  const C *copied, *share;
  C* written;  // (N): log p_gen, then that of being written
  C* less;     // (N): what a row is to be multiplied by to be the gradient of its scores
  C* dbias;    // (V), added to; or null: no gradients
};

template <class C> void word(const Rows<C>& x, Index n, C* dbias) {
  C* row = x.scores + n * x.V;
  Vec<C> highest = spread(C(-INFINITY)), sums{};
  C top_ = -INFINITY, mass = 0;
  columns<C>(x.V, [&](Index j, auto whole) {
    const Vec<C> score = part(row, j, x.V, whole) + part(x.bias, j, x.V, whole);
    if constexpr (whole()) highest = larger<C>(score, highest);
    else
      for (Index k = 0; j + k < x.V; ++k) top_ = std::max(top_, score[k]);
  });
  top_ = std::max(top_, top<C>(highest));
  const C picked = row[x.ids[n]] + x.bias[x.ids[n]] - top_;
  columns<C>(x.V, [&](Index j, auto whole) {
    const Vec<C> risen = exponential(part(row, j, x.V, whole) + part(x.bias, j, x.V, whole) - top_);
    put(row, j, x.V, risen, whole);
    if constexpr (whole()) sums += risen;
    else
      for (Index k = 0; j + k < x.V; ++k) mass += risen[k];
  });
  mass += sum(sums);
  x.written[n] += picked - std::log(mass);
  if (!dbias) return;
  const C less = x.less[n] = -x.share[n] / (mass * (1 + std::exp(x.copied[n] - x.written[n])));
  row[x.ids[n]] -= mass;
  columns<C>(x.V, [&](Index j, auto whole) {
    put(dbias, j, x.V, part(dbias, j, x.V, whole) + less * part(row, j, x.V, whole), whole);
  });
}

template <class C> void words(const Rows<C>& x, Index threads) {
  in_parts(x.N, threads, [&](Index from, Index to) {
    std::vector<C> dbias(x.dbias ? x.V : 0);
    for (Index n = from; n < to; ++n) word(x, n, x.dbias ? dbias.data() : nullptr);
    if (!x.dbias) return;
#pragma omp critical
    add(x.V, dbias.data(), x.dbias);
  });
}

}  // namespace dwindle
