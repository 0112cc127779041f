// The loop of an LSTM that is fed what it attended to: cell, query, additive energies, softmax,
// rule, context; and back.
//
// Step t needs the context of step t - 1, so steps follow each other; but sources do not need each
// other, and a thread takes some of them all the way. What is a product over all steps (gradients
// of weights, keys and values) is left to the caller, for whom both passes leave what it needs.
//
// Shapes: B sources, T steps, S positions, A columns of the keys, H hidden size, E of the values
// and of what is fed.
#pragma once
#include "layer.h"
#include "rule.h"

namespace dwindle {

template <class C> struct Decoder {
  Index B, T, S, A, H, E;
  const C* words;                       // (B, T, E): what each step is fed beside the last context
  const C *keys, *raised, *values;      // (B, S, A), e^2k or null, (B, S, E)
  const std::uint8_t* mask;             // (B, S)
  const C *score, *covered;             // (A), (A) or null
  const C *gates, *gates_bias;          // (4H, E + H), (4H)
  const C *query, *query_bias;          // (A, 2H), (A)
  const C *hidden0, *cell0, *context0;  // (B, H), (B, H), (B, E)
  // What the forward pass leaves. Coverage is that before each step; `total` and `peak` (B, S) move
  // from before to after.
  C *fed, *opened, *hidden, *cell;  // (B, T, E), (B, T, 4H), (B, T, H) twice
  C* queries;                       // (B, T, A)
  C *log_attention, *weights;       // (B, T, S)
  C *totals, *peaks;                // (B, T, S)
  C* context;                       // (B, E): of the last step
  C *total, *peak;
  Mode mode;
  bool detach_gate;
  Kind kind1, kind2;
  Function<C> g1, g2;

  additive::Source<C> source() const {
    return {B, T, S, A, keys, raised, queries, score, covered, totals, mask};
  }
  const C* before(const C* states, const C* first, Index b, Index t) const {
    return t ? states + (b * T + t - 1) * H : first + b * H;
  }
};

// What attention `a` gains of one g at u = 1 + coverage, the slope of g after it, and by how much
// that fell.
template <class C> struct Gained {
  Vec<C> gain, slope, change;
};
template <Kind kind, class C> Gained<C> gained(const Function<C>& g, Vec<C> u, Vec<C> a) {
  Along<C, kind> along(g, u);
  Gained<C> out;
  const Vec<C> r = C(1) / u, after = C(1) / (u + a);
  out.gain = along.gain(a, r, after);
  along.slopes(a, r, after, out.slope, out.change);
  return out;
}
template <class C> Gained<C> gained(Kind kind, const Function<C>& g, Vec<C> u, Vec<C> a) {
  return kind == LOG     ? gained<LOG>(g, u, a)
         : kind == POWER ? gained<POWER>(g, u, a)
                         : gained<BOUNDED>(g, u, a);
}

// Energies (S) to log-attention, in place; padding becomes minus infinity.
template <class C> void log_softmax(Index S, const std::uint8_t* mask, C* row) {
  C highest = -INFINITY, sum = 0;
  for (Index i = 0; i < S; ++i) highest = std::max(highest, row[i] = mask[i] ? row[i] : -INFINITY);
  columns<C>(S, [&](Index j, auto whole) {
    const Vec<C> risen = exponential(part(row, j, S, whole) - highest);
    if constexpr (whole()) sum += dwindle::sum(risen);
    else
      for (Index k = 0; j + k < S; ++k) sum += risen[k];
  });
  highest += std::log(sum);
  for (Index i = 0; i < S; ++i) row[i] -= highest;
}

// The weights of a row, and the coverage after it.
template <class C>
void diminish(const Decoder<C>& x, const C* log_attention, C* weights, C* total, C* peak) {
  columns<C>(x.S, [&](Index j, auto whole) {
    const Vec<C> a = exponential(part(log_attention, j, x.S, whole));
    const Vec<C> c = part(total, j, x.S, whole), m = part(peak, j, x.S, whole);
    Vec<C> w = a;
    if (x.mode != PLAIN) w = gained(x.kind1, x.g1, c + C(1), a).gain;
    if (x.mode == DYDIM) {
      const Vec<C> other = gained(x.kind2, x.g2, c + C(1), a).gain;
      w = other + m * (w - other);
    }
    put(weights, j, x.S, w, whole);
    put(total, j, x.S, c + a, whole);
    put(peak, j, x.S, larger<C>(a, m), whole);
  });
}

// The gradient of the energies (S), in place of that of the log-attention. `dweights` is that of
// the weights; `dtotal` and `dpeak`, of the coverage after the row, become those of the coverage
// before it.
template <class C> void diminish_backward(const Decoder<C>& x, const C* log_attention,
                                          const C* totals, const C* peaks, const C* dweights,
                                          C* dtotal, C* dpeak, C* denergy) {
  C all = 0;
  columns<C>(x.S, [&](Index j, auto whole) {
    const Vec<C> a = exponential(part(log_attention, j, x.S, whole)),
                 d = part(dweights, j, x.S, whole);
    const Vec<C> c = part(totals, j, x.S, whole), m = part(peaks, j, x.S, whole);
    Vec<C> after = part(dtotal, j, x.S, whole), top = part(dpeak, j, x.S, whole),
           slope = spread(C(1)), change{};
    const Vec<C> topped = a >= m ? top : Vec<C>{};
    top -= topped;
    if (x.mode != PLAIN) {
      const Gained<C> first = gained(x.kind1, x.g1, c + C(1), a);
      slope = first.slope, change = first.change;
      if (x.mode == DYDIM) {
        const Gained<C> second = gained(x.kind2, x.g2, c + C(1), a);
        slope = second.slope + m * (slope - second.slope);
        change = second.change + m * (change - second.change);
        if (!x.detach_gate) top += d * (first.gain - second.gain);
      }
    }
    const Vec<C> given = part(denergy, j, x.S, whole) + a * (d * slope + after + topped);
    put(dtotal, j, x.S, after + d * change, whole);
    put(dpeak, j, x.S, top, whole);
    put(denergy, j, x.S, given, whole);
    if constexpr (whole()) all += sum(given);
    else
      for (Index k = 0; j + k < x.S; ++k) all += given[k];
  });
  columns<C>(x.S, [&](Index j, auto whole) {
    const Vec<C> a = exponential(part(log_attention, j, x.S, whole));
    put(denergy, j, x.S, part(denergy, j, x.S, whole) - a * all, whole);
  });
}

// One step of a source: `n` = b T + t.
template <class C> void attend(const Decoder<C>& x, Index b, Index n,
                               const std::vector<Index>& rows, const std::vector<C>& cover,
                               C* context) {
  const additive::Source<C> source = x.source();
  C *row = x.log_attention + n * x.S, *weights = x.weights + n * x.S;
  copy(x.S, x.total + b * x.S, x.totals + n * x.S);
  copy(x.S, x.peak + b * x.S, x.peaks + n * x.S);
  additive::by_kind(source, n, n + 1, [&](auto kind) {
    const std::vector<C> query = additive::prepared<kind()>(x.queries + n * x.A, x.A);
    additive::blocks(rows.size(), [&](Index i, auto count) {
      additive::energies<kind(), count()>(source, b, n, &rows[i], query.data(), cover.data(),
                                          x.log_attention);
    });
  });
  log_softmax(x.S, x.mask + b * x.S, row);
  diminish(x, row, weights, x.total + b * x.S, x.peak + b * x.S);
  std::fill(context, context + x.E, C(0));
  for (const Index i : rows) {
    const C* value = x.values + (b * x.S + i) * x.E;
    for (Index j = 0; j < x.E; ++j) context[j] += weights[i] * value[j];
  }
}

template <class C> void forward(const Decoder<C>& x, Index threads) {
  const auto gates = Packed<C>::turned(x.gates, 4 * x.H, x.E + x.H),
             query = Packed<C>::turned(x.query, x.A, 2 * x.H);
  const std::vector<C> cover = additive::scaled(x.covered, x.A);
  in_parts(x.B, threads, [&](Index from, Index to) {
    const Index count = to - from, H = x.H, E = x.E;
    std::vector<C> context(x.context0 + from * E, x.context0 + to * E), in(count * (E + H)),
        state(count * 2 * H);
    std::vector<C> opened(count * gates.stride()), queries(count * query.stride());
    std::vector<std::vector<Index>> rows;
    for (Index b = from; b < to; ++b) rows.push_back(x.source().rows(b));
    for (Index t = 0; t < x.T; ++t) {
      for (Index r = 0; r < count; ++r) {
        const Index n = (from + r) * x.T + t;
        for (Index j = 0; j < E; ++j)
          in[r * (E + H) + j] = x.fed[n * E + j] = x.words[n * E + j] + context[r * E + j];
        copy(H, x.before(x.hidden, x.hidden0, from + r, t), &in[r * (E + H) + E]);
        copy(4 * H, x.gates_bias, &opened[r * gates.stride()]);
        copy(x.A, x.query_bias, &queries[r * query.stride()]);
      }
      gates.add_product(count, in.data(), E + H, opened.data());
      for (Index r = 0; r < count; ++r) {
        const Index n = (from + r) * x.T + t;
        C *hidden = x.hidden + n * H, *cell = x.cell + n * H;
        lstm_cell(H, &opened[r * gates.stride()], x.before(x.cell, x.cell0, from + r, t), hidden,
                  cell);
        copy(4 * H, &opened[r * gates.stride()], x.opened + n * 4 * H);
        copy(H, cell, &state[r * 2 * H]);
        copy(H, hidden, &state[r * 2 * H + H]);
      }
      query.add_product(count, state.data(), 2 * H, queries.data());
      for (Index r = 0; r < count; ++r) {
        const Index n = (from + r) * x.T + t;
        copy(x.A, &queries[r * query.stride()], x.queries + n * x.A);
        attend(x, from + r, n, rows[r], cover, &context[r * E]);
      }
    }
    copy(count * E, context.data(), x.context + from * E);
  });
}

// Gradients: what comes in is overwritten by what goes out.
template <class C> struct DecoderGradients {
  C* fed;                  // (B, T, E): of what is fed, in and out
  const C *hidden, *cell;  // (B, T, H)
  C* log_attention;        // (B, T, S), then of the energies
  C* weights;              // (B, T, S); what the contexts give is added
  C* contexts;             // (B, T, E) out: of the context after each step
  C *gates, *queries;      // (B, T, 4H), (B, T, A) out
  C *hidden0, *cell0;      // (B, H) out
  C* context;              // (B, E): of the last, then of the first context
  C *total, *peak;         // (B, S): of the coverage after, then before
};

// One step of a source, backwards: from the gradient of its context to that of its query.
template <class C> void attend_backward(const Decoder<C>& x, const DecoderGradients<C>& d, Index b,
                                        Index n, const std::vector<Index>& rows,
                                        const std::vector<C>& cover, const C* context,
                                        std::vector<C>& dcoverage) {
  const additive::Source<C> source = x.source();
  C *dweights = d.weights + n * x.S, *denergy = d.log_attention + n * x.S,
    *dtotal = d.total + b * x.S;
  for (const Index i : rows) {
    const C* value = x.values + (b * x.S + i) * x.E;
    Vec<C> sums{};
    columns<C>(x.E, [&](Index j, auto whole) {
      sums += part(value, j, x.E, whole) * part(context, j, x.E, whole);
    });
    dweights[i] += sum(sums);
  }
  diminish_backward(x, x.log_attention + n * x.S, x.totals + n * x.S, x.peaks + n * x.S, dweights,
                    dtotal, d.peak + b * x.S, denergy);
  std::vector<C> sums(x.A);
  additive::by_kind(source, n, n + 1, [&](auto kind) {
    const std::vector<C> query = additive::prepared<kind()>(x.queries + n * x.A, x.A);
    additive::blocks(rows.size(), [&](Index i, auto count) {
      // `gradients` writes to row n of (N, S); here there is one row only.
      additive::gradients<kind(), count()>(source, d.log_attention, b, n, &rows[i], query.data(),
                                           cover.data(), sums.data(), dcoverage.data() - n * x.S);
    });
  });
  for (Index j = 0; j < x.A; ++j) d.queries[n * x.A + j] = 4 * x.score[j] * sums[j];
  if (x.covered)
    for (const Index i : rows) dtotal[i] += dcoverage[i];
}

template <class C> void backward(const Decoder<C>& x, const DecoderGradients<C>& d, Index threads) {
  const auto gates = Packed<C>::straight(x.gates, 4 * x.H, x.E + x.H),
             query = Packed<C>::straight(x.query, x.A, 2 * x.H);
  const std::vector<C> cover = additive::scaled(x.covered, x.A);
  in_parts(x.B, threads, [&](Index from, Index to) {
    const Index count = to - from, H = x.H, E = x.E, wide = gates.stride(), pair = query.stride();
    std::vector<C> dcell(count * H), din(count * wide), dstate(count * pair), dqueries(count * x.A),
        dgates(count * 4 * H);
    std::vector<C> dcoverage(x.S);
    std::vector<std::vector<Index>> rows;
    for (Index b = from; b < to; ++b) rows.push_back(x.source().rows(b));
    for (Index r = 0; r < count; ++r) copy(E, d.context + (from + r) * E, &din[r * wide]);
    for (Index t = x.T - 1; t >= 0; --t) {
      // Of `din`, the first E are of the context after this step, the others of the hidden state
      // after it.
      for (Index r = 0; r < count; ++r) {
        const Index n = (from + r) * x.T + t;
        copy(E, &din[r * wide], d.contexts + n * E);
        attend_backward(x, d, from + r, n, rows[r], cover, &din[r * wide], dcoverage);
        copy(x.A, d.queries + n * x.A, &dqueries[r * x.A]);
      }
      std::fill(dstate.begin(), dstate.end(), C(0));
      query.add_product(count, dqueries.data(), x.A, dstate.data());
      for (Index r = 0; r < count; ++r) {
        const Index n = (from + r) * x.T + t;
        C *back = &dcell[r * H], *hidden = &dstate[r * pair + H];
        add(H, &dstate[r * pair], back);
        add(H, d.cell + n * H, back);
        add(H, &din[r * wide + E], hidden);
        add(H, d.hidden + n * H, hidden);
        lstm_cell_backward(H, x.opened + n * 4 * H, x.before(x.cell, x.cell0, from + r, t),
                           x.cell + n * H, hidden, back, &dgates[r * 4 * H]);
        copy(4 * H, &dgates[r * 4 * H], d.gates + n * 4 * H);
      }
      std::fill(din.begin(), din.end(), C(0));
      gates.add_product(count, dgates.data(), 4 * H, din.data());
      for (Index r = 0; r < count; ++r) {
        C* fed = d.fed + ((from + r) * x.T + t) * E;
        add(E, fed, &din[r * wide]);
        copy(E, &din[r * wide], fed);
      }
    }
    for (Index r = 0; r < count; ++r) {
      copy(E, &din[r * wide], d.context + (from + r) * E);
      copy(H, &din[r * wide + E], d.hidden0 + (from + r) * H);
      copy(H, &dcell[r * H], d.cell0 + (from + r) * H);
    }
  });
}

}  // namespace dwindle
