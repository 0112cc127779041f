// The backward pass: blocks of target rows from the last to the first.
//
// Attention is rebuilt from the saved norms of its rows and coverage from the one saved before each
// block. Up to the sum over a row that the softmax needs, everything happens within one strip of
// columns in the first cache: scores, attention, gradient of the weights, the rule, gradient of v.
// Then gradients of k and q. Heads that share a coverage are done together, strip by strip.
#pragma once
#include "work.h"

namespace dwindle {

template <class C> using DiminishBackward = void (*)(BackwardStrip<C>);

template <class IO, class C> class Backward {
 public:
  static constexpr int width = Simd<C>::width, lanes = Simd<C>::lanes;
  static constexpr Index chunk = 256 / width;

  Backward(const Problem& p, Codes<DiminishBackward<C>> codes)
      : p(p),
        codes(codes),
        scope(scope_of(p)),
        g1(function<C>(p.g1)),
        g2(function<C>(p.g2)),
        strips((p.S + width - 1) / width),
        rows(std::clamp<Index>(p.rows, 1, std::max<Index>(p.T, 1))),
        heads(p.share_heads ? p.H : 1),
        groups(p.share_heads ? p.Hk : 1),
        ldq(padded<C>(p.D)),
        ldv(padded<C>(p.Dv)),
        direct(sizeof(IO) == sizeof(C) && p.D % lanes == 0 && p.Dv % lanes == 0),
        gate(p.mode == DYDIM && !p.detach_gate ? Gate::flows
             : p.dpeak                         ? Gate::passes
                                               : Gate::none),
        team(team_size(p, sizeof(C))),
        workers(p.threads) {
    for (Worker& w : workers) {
      w.q.get(heads * rows * ldq), w.dout.get(heads * rows * ldv), w.dq.get(heads * rows * ldq);
      w.weights.get(heads * rows * width), w.scratch.get(3 * rows * width);
      w.dots.get(heads * rows * lanes), w.dot.get(heads * rows), w.all.get(heads * rows);
      if (p.renormalise)
        w.part.get(heads * rows), w.scale.get(heads * rows), w.drift.get(heads * rows);
      w.packed.get(std::max(round_up(std::max(p.D, p.Dv), lanes) * width, chunk * width * ldq));
      w.flags.resize(heads);
      reserve(w, (strips + team - 1) / team);
    }
  }

  // Units are what one thread may do without meeting another: query heads that share keys or
  // coverage, and heads or items that share a bias with a gradient, go together.
  void operator()() {
    const bool all_items = p.dbias && !p.dbias_stride[0],
               all_heads = p.share_heads || (p.dbias && !p.dbias_stride[1]);
    const Index items = all_items ? 1 : p.B, parts = all_heads ? 1 : p.Hk;
    share(items * parts, p.threads, team, strips, [=, this](Index unit, Team team) {
      for (Index b = all_items ? 0 : unit / parts; b < (all_items ? p.B : unit / parts + 1); ++b)
        for (Index g = all_heads ? 0 : unit % parts; g < (all_heads ? p.Hk : unit % parts + 1);
             g += groups)
          keys(b, g, team);
    });
  }

 private:
  struct Worker {
    Buffer<C> q, dout, dq, attention, gradient, slope, weights, scratch, dots, dot, all, part,
        scale, drift, total, peak, later, gate, packed, dk, dv;
    std::vector<Flags<C>> flags;
  };

  const Problem& p;
  Codes<DiminishBackward<C>> codes;
  Scope scope;
  Function<C> g1, g2;
  Index strips, rows, heads, groups, ldq, ldv;  // heads and key heads that are done together
  bool direct;                                  // gradients of k and v are summed where they go
  Gate gate;
  int team;
  std::vector<Worker> workers;

  // A member's strips and source positions.
  struct Part {
    Index from, to, s0, columns;
  };
  // Gradients of keys and values, from head to head.
  struct Sums {
    C *dk, *dv;
    Index k_step, v_step, ldk, ldv;
  };

  Index own(Part part) const { return part.to - part.from; }
  Index group_of(Index h) const { return h / (p.H / p.Hk); }

  // Room for so many strips: known beforehand, unless OpenMP gives fewer threads than it was asked
  // for.
  void reserve(Worker& w, Index own) const {
    w.attention.get(heads * own * rows * width), w.gradient.get(heads * own * rows * width);
    if (p.softcap) w.slope.get(heads * own * rows * width);
    for (Buffer<C>* x : {&w.total, &w.peak, &w.later, &w.gate}) x->get(own * width);
    if (!direct) w.dk.get(groups * own * width * ldq), w.dv.get(groups * own * width * ldv);
  }

  // All query heads of key head g, or of all of them if they share a coverage.
  void keys(Index b, Index g, Team team) {
    Worker& w = workers[team.base + team.rank];
    const Index from = team.from(strips), to = team.to(strips), s0 = from * width;
    reserve(w, to - from);
    const Part part{from, to, s0, std::min(to * width, p.S) - s0};
    const Index at = (b * p.Hk + g) * p.S + s0, room = (to - from) * width;
    const Sums sums =
        direct ? Sums{(C*)p.dk + at * p.D, (C*)p.dv + at * p.Dv, p.S * p.D, p.S * p.Dv, p.D, p.Dv}
               : Sums{w.dk.get(), w.dv.get(), room * ldq, room * ldv, ldq, ldv};
    for (Index i = 0; i < groups; ++i) {
      std::fill_n(sums.dk + i * sums.k_step, (direct ? part.columns : room) * sums.ldk, C(0));
      std::fill_n(sums.dv + i * sums.v_step, (direct ? part.columns : room) * sums.ldv, C(0));
    }
    for (Index h = g * (p.H / p.Hk); h < (g + groups) * (p.H / p.Hk); h += heads)
      together(b, h, g, part, sums, w, team);
    for (Index i = 0; i < groups && !direct; ++i) {
      const C *dk = sums.dk + i * sums.k_step, *dv = sums.dv + i * sums.v_step;
      for (Index s = 0; s < part.columns; ++s) {
        const Index place = at + i * p.S + s;
        for (Index d = 0; d < p.D; ++d)
          ((IO*)p.dk)[place * p.D + d] = narrow<IO, C>(dk[s * ldq + d]);
        for (Index d = 0; d < p.Dv; ++d)
          ((IO*)p.dv)[place * p.Dv + d] = narrow<IO, C>(dv[s * ldv + d]);
      }
    }
  }

  // One head, or all heads of an item that share a coverage.
  void together(Index b, Index first, Index g, Part part, Sums sums, Worker& w, Team team) {
    const Index unit = b * p.coverages() + (p.share_heads ? 0 : first), at = unit * p.P + part.s0;
    const Index room = own(part) * width, columns = covered(p, part.s0, room),
                blocks = (p.T + rows - 1) / rows;
    auto fetch = [&](const void* from, Index offset, Buffer<C>& to) {
      std::fill_n(to.get(), room, C(0));
      if (from) std::copy_n((const C*)from + offset, columns, to.get());
    };
    fetch(p.dtotal, at, w.later);
    fetch(p.dpeak, at, w.gate);
    for (Index i = blocks - 1; i >= 0; --i) {
      const Index between = (unit * (blocks - 1) + i - 1) * p.P + part.s0;
      fetch(i ? p.totals : p.total, i ? between : at, w.total);
      fetch(i ? p.peaks : p.peak, i ? between : at, w.peak);
      block(b, first, g, i * rows, std::min(rows, p.T - i * rows), part, sums, w, team);
    }
    if (p.dtotal) std::copy_n(w.later.get(), columns, (C*)p.dtotal + at);
    if (p.dpeak) std::copy_n(w.gate.get(), columns, (C*)p.dpeak + at);
  }

  void block(Index b, Index first, Index g, Index t0, Index n, Part part, Sums sums, Worker& w,
             Team team) {
    part.to = visible(p, b, first, heads, t0, n, part.from, part.to, width);
    for (Index k = 0; k < heads; ++k) {
      const Index h = first + k;
      const IO* q = (const IO*)p.q + b * p.q_stride[0] + h * p.q_stride[1] + t0 * p.q_stride[2];
      const IO* dout =
          (const IO*)p.dout + b * p.dout_stride[0] + h * p.dout_stride[1] + t0 * p.dout_stride[2];
      pack_rows<C, IO>(q, p.q_stride[2], n, p.D, C(p.scale), w.q.get() + k * n * ldq, ldq);
      pack_rows<C, IO>(dout, p.dout_stride[2], n, p.Dv, C(1), w.dout.get() + k * n * ldv, ldv);
    }
    std::fill_n(w.dots.get(), heads * n * lanes, C(0));
    if (p.renormalise) drifts(b, first, t0, n, part, w, team);
    for (Index i = part.from; i < part.to; ++i) through_rule(b, first, g, t0, n, i, part, sums, w);
    for (Index j = 0; j < heads * n; ++j) w.dot.get()[j] = sum(load(w.dots.get() + j * lanes));
    team.wait();
    for (Index j = 0; j < heads * n; ++j) {
      w.all.get()[j] = 0;
      for (int m = 0; m < team.size; ++m) w.all.get()[j] += workers[team.base + m].dot.get()[j];
    }
    std::fill_n(w.dq.get(), heads * n * ldq, C(0));
    for (Index k = 0; k < heads; ++k)
      for (Index i = part.from; i < part.to; i += chunk)
        through_softmax(b, first + k, k, t0, n, i, std::min(i + chunk, part.to), part,
                        sums.dk + (group_of(first + k) - g) * sums.k_step, sums.ldk, w);
    team.wait();
    for (Index k = 0; k < heads; ++k) write(b, first + k, k, t0, n, team);
    team.wait();
  }

  Index columns_of(Index strip) const { return std::min(Index(width), p.S - strip * width); }
  Index tile_at(Index k, Index strip, Part part, Index n) const {
    return (k * own(part) + strip - part.from) * n * width;
  }

  const C* norm_of(Index b, Index h, Index t) const {
    return (const C*)p.norms + p.norm_size() * ((b * p.H + h) * p.T + t);
  }
  void flags_of(Index b, Index first, Index strip, Worker& w) const {
    for (Index k = 0; k < heads; ++k)
      set_flags<C>(p, b, first + k, strip * width, columns_of(strip), w.flags[k]);
  }

  // Attention of one head on one strip, and the gradient of its weights.
  PHASE void rebuild(Index b, Index h, Index k, Index t0, Index n, Index i, Part part, Worker& w) {
    const Index at = tile_at(k, i, part, n), g = group_of(h), s0 = i * width,
                columns = columns_of(i);
    C *a = w.attention.get() + at, *gradient = w.gradient.get() + at;
    const IO* key = (const IO*)p.k + b * p.k_stride[0] + g * p.k_stride[1] + s0 * p.k_stride[2];
    const IO* v = (const IO*)p.v + b * p.v_stride[0] + g * p.v_stride[1] + s0 * p.v_stride[2];
    pack_columns<C, IO>(key, p.k_stride[2], columns, p.D, w.packed.get());
    strip_product<C>(n, columns, {w.q.get() + k * n * ldq, ldq, 1, p.D, 0}, p.D, w.packed.get(), a);
    adjust<C>(p, b, h, t0, n, s0, columns, a, p.softcap ? w.slope.get() + at : nullptr);
    const C* norm = norm_of(b, h, t0);
    for (Index t = 0; t < n; ++t, norm += p.norm_size()) {
      C* row = a + t * width;
      store(row, exponential(load(row) - norm[0]) * norm[1]);
      store(row + lanes, exponential(load(row + lanes) - norm[0]) * norm[1]);
    }
    pack_columns<C, IO>(v, p.v_stride[2], columns, p.Dv, w.packed.get());
    strip_product<C>(n, columns, {w.dout.get() + k * n * ldv, ldv, 1, p.Dv, 0}, p.Dv,
                     w.packed.get(), gradient);
    if (p.dropout) drop<C>(p, b * p.H + h, t0, n, s0, gradient);
  }

  // Whether a strip was rebuilt by `drifts` already: there, plain positions come first.
  bool rebuilt(const Worker& w) const {
    return p.renormalise && scope != Scope::all &&
           std::any_of(w.flags.begin(), w.flags.end(),
                       [](const Flags<C>& x) { return x.any_plain; });
  }

  // w.drift: sum of d f w over mass, for each row that was renormalised. The sum over all positions
  // is <dout, out>; from it goes what is plain.
  PHASE void drifts(Index b, Index first, Index t0, Index n, Part part, Worker& w, Team team) {
    C* sums = w.part.get();
    for (Index j = 0; j < heads * n; ++j) {
      const IO* out = (const IO*)p.out + ((b * p.H + first + j / n) * p.T + t0 + j % n) * p.Dv;
      sums[j] = 0;
      for (Index d = 0; d < p.Dv && team.rank == 0; ++d)
        sums[j] += w.dout.get()[j * ldv + d] * C(widen(out[d]));
    }
    for (Index i = part.from; i < part.to && scope != Scope::all; ++i) {
      flags_of(b, first, i, w);
      if (!rebuilt(w)) continue;
      for (Index k = 0; k < heads; ++k) {
        rebuild(b, first + k, k, t0, n, i, part, w);
        const C *a = w.attention.get() + tile_at(k, i, part, n),
                *d = w.gradient.get() + tile_at(k, i, part, n);
        for (Index t = 0; t < n; ++t, a += width, d += width)
          for (int j = 0; j < width; j += lanes)
            sums[k * n + t] -= sum(load(a + j) * load(d + j) * load(w.flags[k].plain + j));
      }
    }
    team.wait();
    for (Index j = 0; j < heads * n; ++j) {
      const C* norm = norm_of(b, first + j / n, t0 + j % n);
      C all = 0;
      for (int m = 0; m < team.size; ++m) all += workers[team.base + m].part.get()[j];
      w.scale.get()[j] = norm[2], w.drift.get()[j] = all * norm[3];
    }
  }

  // One strip: attention and its gradient (kept for through_softmax), and the gradient of v.
  PHASE void through_rule(Index b, Index first, Index g, Index t0, Index n, Index i, Part part,
                          Sums sums, Worker& w) {
    if (scope != Scope::all) flags_of(b, first, i, w);
    if (!rebuilt(w))
      for (Index k = 0; k < heads; ++k) rebuild(b, first + k, k, t0, n, i, part, w);
    const Index at = (i - part.from) * width, tile = tile_at(0, i, part, n);
    const std::uint8_t* felt = felt_rows(p, b, t0, n);
    const Strip<C> strip{n,  heads, w.flags.data(), felt, w.total.get() + at, w.peak.get() + at,
                         g1, g2};
    codes(scope, w.flags, felt)({strip, w.attention.get() + tile, w.gradient.get() + tile,
                                 own(part) * n * width, w.weights.get(), w.scratch.get(),
                                 w.dots.get(), w.later.get() + at, w.gate.get() + at, gate,
                                 p.renormalise ? w.scale.get() : nullptr, w.drift.get(), n});
    for (Index k = 0; k < heads; ++k) {
      C* weights = w.weights.get() + k * n * width;
      if (p.dropout) drop<C>(p, b * p.H + first + k, t0, n, i * width, weights);
      C* dv = sums.dv + (group_of(first + k) - g) * sums.v_step + at * sums.ldv;
      product<C>(columns_of(i), p.Dv, {weights, 1, width, n, 0}, n, w.dout.get() + k * n * ldv, ldv,
                 dv, sums.ldv);
    }
  }

  // Strips i..end: gradient of the scores in place of the attention, then those of k, q and the
  // bias.
  PHASE void through_softmax(Index b, Index h, Index k, Index t0, Index n, Index i, Index end,
                             Part part, C* dk, Index ldk, Worker& w) {
    const C *dots = w.all.get() + k * n, *q = w.q.get() + k * n * ldq;
    const Index begin = i;
    for (; i < end; ++i) {
      const Index at = tile_at(k, i, part, n);
      C *a = w.attention.get() + at, *gradient = w.gradient.get() + at;
      for (Index t = 0; t < n; ++t)
        for (int j = 0; j < width; j += lanes)
          store(a + t * width + j,
                load(a + t * width + j) * (load(gradient + t * width + j) - dots[t]));
      if (p.dbias) add_bias(b, h, t0, n, i * width, columns_of(i), a);
      if (p.softcap) {
        const C* slope = w.slope.get() + at;
        for (Index j = 0; j < n * width; j += lanes) store(a + j, load(a + j) * load(slope + j));
      }
      product<C>(columns_of(i), p.D, {a, 1, width, n, 0}, n, q, ldq,
                 dk + (i - part.from) * width * ldk, ldk);
    }
    const Index positions = std::min(end * width, p.S) - begin * width;
    const IO* key = (const IO*)p.k + b * p.k_stride[0] + group_of(h) * p.k_stride[1] +
                    begin * width * p.k_stride[2];
    C* packed = w.packed.get();
    pack_rows<C, IO>(key, p.k_stride[2], positions, p.D, C(1), packed, ldq);
    const C* a = w.attention.get() + tile_at(k, begin, part, n);
    product<C>(n, p.D, {a, width, 1, width, n * width}, positions, packed, ldq,
               w.dq.get() + k * n * ldq, ldq);
  }

  void add_bias(Index b, Index h, Index t0, Index n, Index s0, Index columns, const C* a) const {
    C* to = (C*)p.dbias + b * p.dbias_stride[0] + h * p.dbias_stride[1] + s0 * p.dbias_stride[3];
    for (Index t = 0; t < n; ++t)
      for (Index j = 0; j < columns; ++j)
        to[(t0 + t) * p.dbias_stride[2] + j * p.dbias_stride[3]] += a[t * width + j];
  }

  // The gradient of q of one head of the block, summed over the team.
  PHASE void write(Index b, Index h, Index k, Index t0, Index n, Team team) const {
    for (Index t = team.from(n); t < team.to(n); ++t)
      write_row<C, IO>(
          team.size, [&](int m) { return workers[team.base + m].dq.get() + (k * n + t) * ldq; },
          C(p.scale), p.D, (IO*)p.dq + ((b * p.H + h) * p.T + t0 + t) * p.D);
  }
};

}  // namespace dwindle
