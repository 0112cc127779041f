// The forward pass: blocks of target rows over whole source rows, so that no T x S tensor is ever held.
//
// For each block: scores = Q K^T into a tile that is stored strip by strip (strip, row, column); softmax; the
// rule along the rows of each strip, coverage carried from block to block; out = weights V.
#pragma once
#include "work.h"

namespace dwindle {

template <class C>
using Diminish = void (*)(Index, C*, const C*, C*, C*, const C*, const Function<C>&, const Function<C>&);

template <class IO, class C> class Forward {
 public:
  static constexpr int width = Simd<C>::width, lanes = Simd<C>::lanes;
  static constexpr Index chunk = 256 / width;  // strips whose scores, exponentials and values stay in cache
  static constexpr Index few = 4;              // up to so many rows (decoding) k and v are read once, unpacked

  Forward(const Problem& p, Diminish<C> rule)
      : p(p), rule(rule), g1(function<C>(p.s1, p.p1, p.terms1)), g2(function<C>(p.s2, p.p2, p.terms2)),
        strips((p.S + width - 1) / width), rows(std::min(p.rows, p.T)), ldq(padded<C>(p.D)), ldv(padded<C>(p.Dv)),
        workers(p.threads) {
    const Index chunks = (strips + chunk - 1) / chunk;
    for (Worker& w : workers) {
      w.q.get(rows * ldq);
      w.out.get(rows * ldv);
      w.tile.get(strips * rows * width);
      w.factor.get(chunks * rows);
      w.top.get(rows), w.sum.get(rows), w.wide.get(rows * width);
      w.total.get(strips * width), w.peak.get(strips * width);
      w.packed.get(std::max(round_up(p.D, lanes) * width, chunk * width * ldv));
    }
  }

  void operator()() {
    share(p.B * p.H, p.threads, strips, [this](Index unit, Team team) { head(unit / p.H, unit % p.H, team); });
  }

 private:
  struct Worker {
    Buffer<C> q, out, tile, factor, top, sum, wide, total, peak, packed;
  };

  const Problem& p;
  Diminish<C> rule;
  Function<C> g1, g2;
  Index strips, rows, ldq, ldv;
  std::vector<Worker> workers;

  void head(Index b, Index h, Team team) {
    Worker& w = workers[team.base + team.rank];
    const Index from = team.from(strips), to = team.to(strips), unit = b * p.H + h;
    const Index s0 = from * width, columns = std::min(to * width, p.S) - s0;
    C *total = (C*)p.total + unit * p.S + s0, *peak = (C*)p.peak + unit * p.S + s0;
    std::fill_n(std::copy_n(total, columns, w.total.get()), (to - from) * width - columns, C(0));
    std::fill_n(std::copy_n(peak, columns, w.peak.get()), (to - from) * width - columns, C(0));
    const Index blocks = (p.T + rows - 1) / rows;
    for (Index i = 0; i < blocks; ++i) {
      if (i && p.totals) {  // what the backward pass starts this block from
        const Index at = (unit * (blocks - 1) + i - 1) * p.S + s0;
        std::copy_n(w.total.get(), columns, (C*)p.totals + at);
        if (p.peaks) std::copy_n(w.peak.get(), columns, (C*)p.peaks + at);
      }
      block(b, h, i * rows, std::min(rows, p.T - i * rows), from, to, w, team);
    }
    std::copy_n(w.total.get(), columns, total);
    std::copy_n(w.peak.get(), columns, peak);
  }

  void block(Index b, Index h, Index t0, Index n, Index from, Index to, Worker& w, Team team) {
    const IO* q = (const IO*)p.q + b * p.q_stride[0] + h * p.q_stride[1] + t0 * p.q_stride[2];
    pack_rows<C, IO>(q, p.q_stride[2], n, p.D, C(p.scale), w.q.get(), ldq);
    std::fill_n(w.top.get(), n, -std::numeric_limits<C>::infinity());
    std::fill_n(w.sum.get(), n, C(0));
    for (Index i = from, part = 0; i < to; i += chunk, ++part) {
      const Index end = std::min(i + chunk, to);
      scores(b, h, t0, n, i, end, from, w);
      exponentials(n, i, end, from, w, w.factor.get() + part * n);
    }
    team.wait();
    normalise(b, h, t0, n, (to - from + chunk - 1) / chunk, w, team);
    std::fill_n(w.out.get(), n * ldv, C(0));
    for (Index i = from, part = 0; i < to; i += chunk, ++part) {
      const Index end = std::min(i + chunk, to);
      weights(b, h, t0, n, i, end, from, w.factor.get() + part * n, w);
      context(b, h, n, i, end, from, w);
    }
    team.wait();
    write(b, h, t0, n, team);
    team.wait();
  }

  Index columns_of(Index strip) const { return std::min(Index(width), p.S - strip * width); }
  C* strip_of(Worker& w, Index strip, Index from, Index n) { return w.tile.get() + (strip - from) * n * width; }

  // Scores of strips i..end, and the largest of each row by column of a strip in w.wide.
  void scores(Index b, Index h, Index t0, Index n, Index i, Index end, Index from, Worker& w) {
    const IO* k = (const IO*)p.k + b * p.k_stride[0] + h / (p.H / p.Hk) * p.k_stride[1];
    std::fill_n(w.wide.get(), n * width, -std::numeric_limits<C>::infinity());
    for (; i < end; ++i) {
      C* tile = strip_of(w, i, from, n);
      const IO* rows_of_k = k + i * width * p.k_stride[2];
      if (n <= few) {
        dots(rows_of_k, columns_of(i), n, w.q.get(), tile);
      } else {
        pack_columns<C, IO>(rows_of_k, p.k_stride[2], columns_of(i), p.D, w.packed.get());
        strip_product<C>(n, {w.q.get(), ldq, 1, p.D, 0}, 1, w.packed.get(), width, tile, width, false);
      }
      adjust<C>(p, b, h, t0, n, i * width, columns_of(i), tile, nullptr);
      for (Index j = 0; j < n * width; j += lanes)
        store(w.wide.get() + j, larger<C>(load(tile + j), load(w.wide.get() + j)));
    }
  }

  // tile (n x width) = q k^T for few rows: products along D, summed by a transposition.
  void dots(const IO* k, Index columns, Index n, const C* q, C* tile) const {
    for (Index t = 0; t < n; ++t, q += ldq) {
      for (Index half = 0; half < width; half += lanes) {
        Vec<C> sums[lanes] = {};
        const Index valid = std::min(Index(lanes), columns - half);
        if (valid == lanes) {
          Index d = 0;
          for (; d + lanes <= p.D; d += lanes) {
            const Vec<C> x = load(q + d);
#pragma GCC unroll 16
            for (Index i = 0; i < lanes; ++i) sums[i] += x * load_as<C>(k + (half + i) * p.k_stride[2] + d);
          }
          if (d < p.D)
            for (Index i = 0; i < lanes; ++i)
              sums[i] += load(q + d) * load_some<C>(k + (half + i) * p.k_stride[2] + d, p.D - d);
        } else {
          for (Index i = 0; i < valid; ++i)
            for (Index d = 0; d < p.D; d += lanes)
              sums[i] += load(q + d) * load_some<C>(k + (half + i) * p.k_stride[2] + d, std::min(Index(lanes), p.D - d));
        }
        transpose<C>(sums);
        for (int i = 1; i < lanes; ++i) sums[0] += sums[i];
        store(tile + t * width + half, sums[0]);
      }
    }
  }

  // Scores become e^(score - the row's maximum so far), which is left in `reference`; sums follow it.
  void exponentials(Index n, Index i, Index end, Index from, Worker& w, C* reference) {
    C *top = w.top.get(), *sums = w.sum.get(), *wide = w.wide.get();
    for (Index t = 0; t < n; ++t) {
      const C highest = std::max(top[t], dwindle::top<C>(larger<C>(load(wide + t * width), load(wide + t * width + lanes))));
      const bool nothing = highest == -std::numeric_limits<C>::infinity();
      if (!nothing) sums[t] *= std::exp(top[t] - highest);
      top[t] = highest;
      reference[t] = nothing ? C(0) : highest;
    }
    std::fill_n(wide, n * width, C(0));
    for (; i < end; ++i) {
      C* tile = strip_of(w, i, from, n);
      for (Index t = 0; t < n; ++t, tile += width) {
        const Vec<C> e0 = exponential(load(tile) - reference[t]), e1 = exponential(load(tile + lanes) - reference[t]);
        store(tile, e0), store(tile + lanes, e1);
        store(wide + t * width, load(wide + t * width) + e0);
        store(wide + t * width + lanes, load(wide + t * width + lanes) + e1);
      }
    }
    for (Index t = 0; t < n; ++t) sums[t] += sum(load(wide + t * width) + load(wide + t * width + lanes));
  }

  // From the references of each chunk to the factors that make its exponentials attention.
  void normalise(Index b, Index h, Index t0, Index n, Index parts, Worker& w, Team team) {
    for (Index t = 0; t < n; ++t) {
      C highest = -std::numeric_limits<C>::infinity(), all = 0;
      for (int m = 0; m < team.size; ++m) highest = std::max(highest, workers[team.base + m].top.get()[t]);
      const bool nothing = highest == -std::numeric_limits<C>::infinity();
      for (int m = 0; m < team.size && !nothing; ++m)
        all += workers[team.base + m].sum.get()[t] * std::exp(workers[team.base + m].top.get()[t] - highest);
      for (Index part = 0; part < parts; ++part) {
        C& factor = w.factor.get()[part * n + t];
        factor = nothing ? C(0) : std::exp(factor - highest) / all;
      }
      if (p.lse && team.rank == 0)
        ((C*)p.lse)[(b * p.H + h) * p.T + t0 + t] = nothing ? std::numeric_limits<C>::infinity() : highest + std::log(all);
    }
  }

  // The rule on strips i..end, and dropout.
  void weights(Index b, Index h, Index t0, Index n, Index i, Index end, Index from, const C* factor, Worker& w) {
    for (; i < end; ++i) {
      C *tile = strip_of(w, i, from, n), kept[width];
      if (p.kept) kept_strip<C>(p, b, h, i * width, columns_of(i), kept);
      rule(n, tile, factor, w.total.get() + (i - from) * width, w.peak.get() + (i - from) * width, kept, g1, g2);
      if (p.dropout) drop<C>(p, b * p.H + h, t0, n, i * width, tile);
    }
  }

  // out += weights V over strips i..end.
  void context(Index b, Index h, Index n, Index i, Index end, Index from, Worker& w) {
    const IO* v = (const IO*)p.v + b * p.v_stride[0] + h / (p.H / p.Hk) * p.v_stride[1] + i * width * p.v_stride[2];
    const Index positions = std::min(end * width, p.S) - i * width;
    C* tile = strip_of(w, i, from, n);
    if (n <= few) {
      for (Index s = 0; s < positions; s += width, tile += n * width)
        add_values(v + s * p.v_stride[2], std::min(Index(width), positions - s), n, tile, w.out.get());
      return;
    }
    C* packed = w.packed.get();
    pack_rows<C, IO>(v, p.v_stride[2], positions, p.Dv, C(1), packed, ldv);
    std::fill(packed + positions * ldv, packed + (end - i) * width * ldv, C(0));
    product<C>(n, p.Dv, {tile, width, 1, width, n * width}, end - i, packed, ldv, w.out.get(), ldv);
  }

  // out (n x Dv) += a strip of weights times its values, for few rows.
  void add_values(const IO* v, Index columns, Index n, const C* weights, C* out) const {
    for (Index t = 0; t < n; ++t, weights += width, out += ldv) {
      Index d = 0;
      for (; d + width <= p.Dv; d += width) {
        Vec<C> x = load(out + d), y = load(out + d + lanes);
        for (Index s = 0; s < columns; ++s) {
          const IO* row = v + s * p.v_stride[2] + d;
          x += load_as<C>(row) * weights[s], y += load_as<C>(row + lanes) * weights[s];
        }
        store(out + d, x), store(out + d + lanes, y);
      }
      for (; d < p.Dv; d += lanes) {
        Vec<C> x = load(out + d);
        for (Index s = 0; s < columns; ++s)
          x += load_some<C>(v + s * p.v_stride[2] + d, std::min(Index(lanes), p.Dv - d)) * weights[s];
        store(out + d, x);
      }
    }
  }

  // The context of the block, summed over the team.
  void write(Index b, Index h, Index t0, Index n, Team team) const {
    for (Index t = team.from(n); t < team.to(n); ++t) {
      IO* out = (IO*)p.out + ((b * p.H + h) * p.T + t0 + t) * p.Dv;
      for (Index d = 0; d < p.Dv; ++d) {
        C x = 0;
        for (int m = 0; m < team.size; ++m) x += workers[team.base + m].out.get()[t * ldv + d];
        out[d] = narrow<IO, C>(x);
      }
    }
  }
};

}  // namespace dwindle
