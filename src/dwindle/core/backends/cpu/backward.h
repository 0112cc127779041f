// The backward pass: blocks of target rows from the last to the first.
//
// Attention is rebuilt from the saved norms of its rows and coverage from the one saved before each block. Up to the
// sum over a row that the softmax needs, everything happens within one strip of columns in the first cache:
// scores, attention, gradient of the weights, the rule, gradient of v. Then gradients of k and q.
#pragma once
#include "work.h"

namespace dwindle {

template <class C>
using DiminishBackward = void (*)(Index, const C*, C*, C*, C*, C*, const C*, const C*, C*, C*, Gate, const C*,
                                  const Function<C>&, const Function<C>&);

template <class IO, class C> class Backward {
 public:
  static constexpr int width = Simd<C>::width, lanes = Simd<C>::lanes;
  static constexpr Index chunk = 256 / width;

  Backward(const Problem& p, DiminishBackward<C> rule)
      : p(p), rule(rule), g1(function<C>(p.g1)), g2(function<C>(p.g2)),
        strips((p.S + width - 1) / width), rows(std::clamp<Index>(p.rows, 1, std::max<Index>(p.T, 1))), ldq(padded<C>(p.D)), ldv(padded<C>(p.Dv)),
        direct(sizeof(IO) == sizeof(C) && p.D % lanes == 0 && p.Dv % lanes == 0),
        gate(p.mode == DYDIM && !p.detach_gate ? Gate::flows : p.dpeak ? Gate::passes : Gate::none),
        team(team_size(p, sizeof(C))), workers(p.threads) {
    for (Worker& w : workers) {
      w.q.get(rows * ldq), w.dout.get(rows * ldv), w.dq.get(rows * ldq);
      w.strip.get(3 * rows * width), w.dots.get(rows * lanes), w.dot.get(rows), w.all.get(rows);
      w.packed.get(std::max(round_up(std::max(p.D, p.Dv), lanes) * width, chunk * width * ldq));
      reserve(w, (strips + team - 1) / team);
    }
  }

  // Units are what one thread may do without meeting another: query heads that share keys, and heads or
  // items that share a bias with a gradient, go together.
  void operator()() {
    const bool all_items = p.dbias && !p.dbias_stride[0], all_heads = p.dbias && !p.dbias_stride[1];
    const Index items = all_items ? 1 : p.B, groups = all_heads ? 1 : p.Hk;
    share(items * groups, p.threads, team, strips, [=, this](Index unit, Team team) {
      for (Index b = all_items ? 0 : unit / groups; b < (all_items ? p.B : unit / groups + 1); ++b)
        for (Index g = all_heads ? 0 : unit % groups; g < (all_heads ? p.Hk : unit % groups + 1); ++g)
          group(b, g, team);
    });
  }

 private:
  struct Worker {
    Buffer<C> q, dout, dq, attention, gradient, slope, strip, dots, dot, all, total, peak, later, gate, packed, dk, dv;
  };

  const Problem& p;
  DiminishBackward<C> rule;
  Function<C> g1, g2;
  Index strips, rows, ldq, ldv;
  bool direct;  // gradients of k and v are summed where they go
  Gate gate;
  int team;
  std::vector<Worker> workers;

  struct Part { Index from, to, s0, columns; };  // a member's strips and source positions

  // Room for so many strips: known beforehand, unless OpenMP gives fewer threads than it was asked for.
  void reserve(Worker& w, Index own) const {
    w.attention.get(own * rows * width), w.gradient.get(own * rows * width);
    if (p.softcap) w.slope.get(own * rows * width);
    for (Buffer<C>* x : {&w.total, &w.peak, &w.later, &w.gate}) x->get(own * width);
    if (!direct) w.dk.get(own * width * ldq), w.dv.get(own * width * ldv);
  }

  // All query heads of one key head.
  void group(Index b, Index g, Team team) {
    Worker& w = workers[team.base + team.rank];
    const Index from = team.from(strips), to = team.to(strips), s0 = from * width;
    reserve(w, to - from);
    const Part part{from, to, s0, std::min(to * width, p.S) - s0};
    const Index at = (b * p.Hk + g) * p.S + s0;
    C* dk = direct ? (C*)p.dk + at * p.D : w.dk.get();
    C* dv = direct ? (C*)p.dv + at * p.Dv : w.dv.get();
    std::fill_n(dk, direct ? part.columns * p.D : (to - from) * width * ldq, C(0));
    std::fill_n(dv, direct ? part.columns * p.Dv : (to - from) * width * ldv, C(0));
    for (Index h = g * (p.H / p.Hk); h < (g + 1) * (p.H / p.Hk); ++h) head(b, h, part, dk, dv, w, team);
    if (direct) return;
    for (Index s = 0; s < part.columns; ++s) {
      for (Index d = 0; d < p.D; ++d) ((IO*)p.dk)[(at + s) * p.D + d] = narrow<IO, C>(dk[s * ldq + d]);
      for (Index d = 0; d < p.Dv; ++d) ((IO*)p.dv)[(at + s) * p.Dv + d] = narrow<IO, C>(dv[s * ldv + d]);
    }
  }

  void head(Index b, Index h, Part part, C* dk, C* dv, Worker& w, Team team) {
    const Index unit = b * p.H + h, at = unit * p.S + part.s0, padding = (part.to - part.from) * width;
    const Index blocks = (p.T + rows - 1) / rows;
    auto fetch = [&](const void* from, Index offset, Buffer<C>& to) {
      std::fill_n(to.get(), padding, C(0));
      if (from) std::copy_n((const C*)from + offset, part.columns, to.get());
    };
    fetch(p.dtotal, at, w.later);
    fetch(p.dpeak, at, w.gate);
    for (Index i = blocks - 1; i >= 0; --i) {
      const Index between = (unit * (blocks - 1) + i - 1) * p.S + part.s0;
      fetch(i ? p.totals : p.total, i ? between : at, w.total);
      fetch(i ? p.peaks : p.peak, i ? between : at, w.peak);
      block(b, h, i * rows, std::min(rows, p.T - i * rows), part, dk, dv, w, team);
    }
    if (p.dtotal) std::copy_n(w.later.get(), part.columns, (C*)p.dtotal + at);
    if (p.dpeak) std::copy_n(w.gate.get(), part.columns, (C*)p.dpeak + at);
  }

  void block(Index b, Index h, Index t0, Index n, Part part, C* dk, C* dv, Worker& w, Team team) {
    const IO* q = (const IO*)p.q + b * p.q_stride[0] + h * p.q_stride[1] + t0 * p.q_stride[2];
    const IO* dout = (const IO*)p.dout + b * p.dout_stride[0] + h * p.dout_stride[1] + t0 * p.dout_stride[2];
    pack_rows<C, IO>(q, p.q_stride[2], n, p.D, C(p.scale), w.q.get(), ldq);
    pack_rows<C, IO>(dout, p.dout_stride[2], n, p.Dv, C(1), w.dout.get(), ldv);
    std::fill_n(w.dots.get(), n * lanes, C(0));
    for (Index i = part.from; i < part.to; ++i)
      through_rule(b, h, t0, n, i, part, dv + (i - part.from) * width * (direct ? p.Dv : ldv), w);
    for (Index t = 0; t < n; ++t) w.dot.get()[t] = sum(load(w.dots.get() + t * lanes));
    team.wait();
    C* all = w.all.get();
    for (Index t = 0; t < n; ++t) {
      all[t] = 0;
      for (int m = 0; m < team.size; ++m) all[t] += workers[team.base + m].dot.get()[t];
    }
    std::fill_n(w.dq.get(), n * ldq, C(0));
    for (Index i = part.from; i < part.to; i += chunk)
      through_softmax(b, h, t0, n, i, std::min(i + chunk, part.to), part, all, dk, w);
    team.wait();
    write(b, h, t0, n, team);
    team.wait();
  }

  Index columns_of(Index strip) const { return std::min(Index(width), p.S - strip * width); }

  // One strip: attention and its gradient (kept for through_softmax), and the gradient of v.
  PHASE void through_rule(Index b, Index h, Index t0, Index n, Index i, Part part, C* dv, Worker& w) {
    const Index at = (i - part.from) * n * width, g = h / (p.H / p.Hk), s0 = i * width, columns = columns_of(i);
    C *a = w.attention.get() + at, *gradient = w.gradient.get() + at, *strip = w.strip.get(), kept[width];
    const IO* k = (const IO*)p.k + b * p.k_stride[0] + g * p.k_stride[1] + s0 * p.k_stride[2];
    const IO* v = (const IO*)p.v + b * p.v_stride[0] + g * p.v_stride[1] + s0 * p.v_stride[2];
    const C* norm = (const C*)p.norms + 2 * ((b * p.H + h) * p.T + t0);

    pack_columns<C, IO>(k, p.k_stride[2], columns, p.D, w.packed.get());
    strip_product<C>(n, columns, {w.q.get(), ldq, 1, p.D, 0}, p.D, w.packed.get(), a);
    adjust<C>(p, b, h, t0, n, s0, columns, a, p.softcap ? w.slope.get() + at : nullptr);
    for (Index t = 0; t < n; ++t) {
      C* row = a + t * width;
      store(row, exponential(load(row) - norm[2 * t]) * norm[2 * t + 1]);
      store(row + lanes, exponential(load(row + lanes) - norm[2 * t]) * norm[2 * t + 1]);
    }
    pack_columns<C, IO>(v, p.v_stride[2], columns, p.Dv, w.packed.get());
    strip_product<C>(n, columns, {w.dout.get(), ldv, 1, p.Dv, 0}, p.Dv, w.packed.get(), gradient);
    if (p.dropout) drop<C>(p, b * p.H + h, t0, n, s0, gradient);

    if (p.kept) kept_strip<C>(p, b, h, s0, columns, kept);
    const Index own = (i - part.from) * width;
    rule(n, a, gradient, strip, strip + n * width, w.dots.get(), w.total.get() + own, w.peak.get() + own,
         w.later.get() + own, w.gate.get() + own, gate, kept, g1, g2);
    if (p.dropout) drop<C>(p, b * p.H + h, t0, n, s0, strip);
    const Index ld = direct ? p.Dv : ldv;
    product<C>(columns, p.Dv, {strip, 1, width, n, 0}, n, w.dout.get(), ldv, dv, ld);
  }

  // Strips i..end: gradient of the scores in place of the attention, then those of k, q and the bias.
  PHASE void through_softmax(Index b, Index h, Index t0, Index n, Index i, Index end, Part part, const C* dots, C* dk, Worker& w) {
    const Index ld = direct ? p.D : ldq;
    const Index begin = i;
    for (; i < end; ++i) {
      const Index at = (i - part.from) * n * width;
      C *a = w.attention.get() + at, *gradient = w.gradient.get() + at;
      for (Index t = 0; t < n; ++t)
        for (int j = 0; j < width; j += lanes)
          store(a + t * width + j, load(a + t * width + j) * (load(gradient + t * width + j) - dots[t]));
      if (p.dbias) add_bias(b, h, t0, n, i * width, columns_of(i), a);
      if (p.softcap) {
        const C* slope = w.slope.get() + at;
        for (Index j = 0; j < n * width; j += lanes) store(a + j, load(a + j) * load(slope + j));
      }
      product<C>(columns_of(i), p.D, {a, 1, width, n, 0}, n, w.q.get(), ldq, dk + (i - part.from) * width * ld, ld);
    }
    const Index positions = std::min(end * width, p.S) - begin * width;
    const IO* k = (const IO*)p.k + b * p.k_stride[0] + h / (p.H / p.Hk) * p.k_stride[1] + begin * width * p.k_stride[2];
    C* packed = w.packed.get();
    pack_rows<C, IO>(k, p.k_stride[2], positions, p.D, C(1), packed, ldq);
    const C* a = w.attention.get() + (begin - part.from) * n * width;
    product<C>(n, p.D, {a, width, 1, width, n * width}, positions, packed, ldq, w.dq.get(), ldq);
  }

  void add_bias(Index b, Index h, Index t0, Index n, Index s0, Index columns, const C* a) const {
    C* to = (C*)p.dbias + b * p.dbias_stride[0] + h * p.dbias_stride[1] + s0 * p.dbias_stride[3];
    for (Index t = 0; t < n; ++t)
      for (Index j = 0; j < columns; ++j) to[(t0 + t) * p.dbias_stride[2] + j * p.dbias_stride[3]] += a[t * width + j];
  }

  // The gradient of q of the block, summed over the team.
  PHASE void write(Index b, Index h, Index t0, Index n, Team team) const {
    for (Index t = team.from(n); t < team.to(n); ++t)
      write_row<C, IO>(team.size, [&](int m) { return workers[team.base + m].dq.get() + t * ldq; }, C(p.scale), p.D,
                       (IO*)p.dq + ((b * p.H + h) * p.T + t0 + t) * p.D);
  }
};

}  // namespace dwindle
