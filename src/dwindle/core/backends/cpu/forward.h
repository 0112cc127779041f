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
  static constexpr C safe = 40;                // below, e^score needs no maximum taken off: sums stay in range
  static constexpr Index few = 4;              // up to so many rows (decoding) k and v are read once, unpacked

  Forward(const Problem& p, Diminish<C> rule)
      : p(p), rule(rule), g1(function<C>(p.g1)), g2(function<C>(p.g2)),
        strips((p.S + width - 1) / width), rows(std::clamp<Index>(p.rows, 1, std::max<Index>(p.T, 1))), ldq(padded<C>(p.D)), ldv(padded<C>(p.Dv)),
        team(team_size(p, sizeof(C))), workers(p.threads) {
    for (Worker& w : workers) {
      w.q.get(rows * ldq);
      w.out.get(rows * ldv);
      w.top.get(rows), w.sum.get(rows), w.wide.get(rows * lanes);
      w.packed.get(std::max(round_up(p.D, lanes) * width, chunk * width * ldv));
      reserve(w, (strips + team - 1) / team);
    }
  }

  void operator()() {
    share(p.B * p.H, p.threads, team, strips, [this](Index unit, Team team) { head(unit / p.H, unit % p.H, team); });
  }

 private:
  struct Worker {
    Buffer<C> q, out, tile, factor, top, sum, wide, total, peak, packed;
  };

  const Problem& p;
  Diminish<C> rule;
  Function<C> g1, g2;
  Index strips, rows, ldq, ldv;
  int team;
  std::vector<Worker> workers;

  // Room for so many strips: known beforehand, unless OpenMP gives fewer threads than it was asked for.
  void reserve(Worker& w, Index own) const {
    w.tile.get(own * rows * width);
    w.factor.get((own + chunk - 1) / chunk * rows);
    w.total.get(own * width), w.peak.get(own * width);
  }

  void head(Index b, Index h, Team team) {
    Worker& w = workers[team.base + team.rank];
    const Index from = team.from(strips), to = team.to(strips), unit = b * p.H + h;
    reserve(w, to - from);
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
    if (to - from <= chunk) {  // short sources: the values come while the scores are computed
      const char* v = (const char*)(values(b, h, from));
      for (Index s = from * width; s < std::min(to * width, p.S); ++s, v += p.v_stride[2] * sizeof(IO))
        for (Index d = 0; d < p.Dv * Index(sizeof(IO)); d += 64) __builtin_prefetch(v + d);
    }
    const C longest = longest_row(w.q.get(), n) + std::numeric_limits<C>::min();  // 0 means: none given
    for (Index i = from, part = 0; i < to; i += chunk, ++part) {
      const Index end = std::min(i + chunk, to);
      C* reference = w.factor.get() + part * n;
      if (n > few && !p.bias && scores(b, h, t0, n, i, end, from, longest, w)) {
        std::fill_n(reference, n, C(0));
      } else {
        scores(b, h, t0, n, i, end, from, 0, w);
        highest(n, w, reference);
        for (Index j = i; j < end; ++j) exponentials(n, strip_of(w, j, from, n), reference, w.wide.get());
      }
      add_sums(n, reference, w);
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

  C longest_row(const C* q, Index n) const {
    C most = 0;
    for (Index t = 0; t < n; ++t) {
      Vec<C> squares{};
      for (Index d = 0; d < p.D; d += lanes) squares += load(q + t * ldq + d) * load(q + t * ldq + d);
      most = std::max(most, sum(squares));
    }
    return std::sqrt(most);
  }

  Index columns_of(Index strip) const { return std::min(Index(width), p.S - strip * width); }
  C* strip_of(Worker& w, Index strip, Index from, Index n) { return w.tile.get() + (strip - from) * n * width; }

  const IO* keys(Index b, Index h, Index strip) const {
    return (const IO*)p.k + b * p.k_stride[0] + h / (p.H / p.Hk) * p.k_stride[1] + strip * width * p.k_stride[2];
  }

  const IO* values(Index b, Index h, Index strip) const {
    return (const IO*)p.v + b * p.v_stride[0] + h / (p.H / p.Hk) * p.v_stride[1] + strip * width * p.v_stride[2];
  }

  // Scores of strips i..end. Given the length of the longest query they become exponentials at once, and
  // w.wide their sums by lane; false, and nothing done, if a score may be too large for that (it is at most the
  // product of the lengths of q and k). Without, w.wide is the largest score by lane.
  PHASE bool scores(Index b, Index h, Index t0, Index n, Index i, Index end, Index from, C longest, Worker& w) {
    C* wide = w.wide.get();
    std::fill_n(wide, n * lanes, longest ? C(0) : -std::numeric_limits<C>::infinity());
    for (; i < end; ++i) {
      C* tile = strip_of(w, i, from, n);
      if (n <= few) {
        dots(keys(b, h, i), columns_of(i), n, w.q.get(), tile);
      } else {
        pack_columns<C, IO>(keys(b, h, i), p.k_stride[2], columns_of(i), p.D, w.packed.get());
        if (longest && !(longest * longest * longest_square(w.packed.get(), p.D) < safe * safe)) return false;
        strip_product<C>(n, columns_of(i), {w.q.get(), ldq, 1, p.D, 0}, p.D, w.packed.get(), tile);
      }
      adjust<C>(p, b, h, t0, n, i * width, columns_of(i), tile, nullptr);
      if (longest) {
        exponentials(n, tile, nullptr, wide);
      } else {
        for (Index t = 0; t < n; ++t, tile += width)
          store(wide + t * lanes, larger<C>(larger<C>(load(tile), load(tile + lanes)), load(wide + t * lanes)));
      }
    }
    return true;
  }

  // e^(score - reference) of a strip in place (no reference: 0), added to `wide` by column.
  static void exponentials(Index n, C* tile, const C* reference, C* wide) {
    for (Index t = 0; t < n; ++t, tile += width) {
      const C zero = reference ? reference[t] : C(0);
      const Vec<C> e0 = exponential(load(tile) - zero), e1 = exponential(load(tile + lanes) - zero);
      store(tile, e0), store(tile + lanes, e1);
      store(wide + t * lanes, load(wide + t * lanes) + (e0 + e1));
    }
  }

  // The largest score of each row as the reference, or 0 where all are -inf; w.wide is cleared for sums.
  static void highest(Index n, Worker& w, C* reference) {
    for (Index t = 0; t < n; ++t) {
      const C x = top<C>(load(w.wide.get() + t * lanes));
      reference[t] = x == -std::numeric_limits<C>::infinity() ? C(0) : x;
    }
    std::fill_n(w.wide.get(), n * lanes, C(0));
  }

  // The sums of a chunk join those of the row, which are relative to the largest reference so far. A chunk that is
  // wholly masked has none: whatever it took for a reference may lie far above every true score.
  static void add_sums(Index n, C* reference, Worker& w) {
    C *tops = w.top.get(), *sums = w.sum.get();
    for (Index t = 0; t < n; ++t) {
      const C added = sum(load(w.wide.get() + t * lanes));
      if (added == 0) {
        reference[t] = -std::numeric_limits<C>::infinity();
        continue;
      }
      const C before = tops[t], now = std::max(before, reference[t]);
      sums[t] = (before == now ? sums[t] : sums[t] * std::exp(before - now)) +
                (reference[t] == now ? added : added * std::exp(reference[t] - now));
      tops[t] = now;
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

  // From the references of each chunk to the factors that make its exponentials attention.
  PHASE void normalise(Index b, Index h, Index t0, Index n, Index parts, Worker& w, Team team) {
    for (Index t = 0; t < n; ++t) {
      C highest = -std::numeric_limits<C>::infinity(), all = 0;
      for (int m = 0; m < team.size; ++m) highest = std::max(highest, workers[team.base + m].top.get()[t]);
      for (int m = 0; m < team.size; ++m)
        if (const Worker& x = workers[team.base + m]; x.sum.get()[t] != 0)
          all += x.sum.get()[t] * (x.top.get()[t] == highest ? C(1) : std::exp(x.top.get()[t] - highest));
      const bool nothing = all == 0;
      const C inverse = nothing ? C(0) : C(1) / all;
      for (Index part = 0; part < parts; ++part) {
        C& factor = w.factor.get()[part * n + t];
        factor = factor == highest ? inverse : std::exp(factor - highest) * inverse;
      }
      if (p.norms && team.rank == 0) {
        C* norm = (C*)p.norms + 2 * ((b * p.H + h) * p.T + t0 + t);
        norm[0] = nothing ? C(0) : highest, norm[1] = inverse;
      }
    }
  }

  // The rule on strips i..end, and dropout.
  PHASE void weights(Index b, Index h, Index t0, Index n, Index i, Index end, Index from, const C* factor, Worker& w) {
    for (; i < end; ++i) {
      C *tile = strip_of(w, i, from, n), kept[width];
      if (p.kept) kept_strip<C>(p, b, h, i * width, columns_of(i), kept);
      rule(n, tile, factor, w.total.get() + (i - from) * width, w.peak.get() + (i - from) * width, kept, g1, g2);
      if (p.dropout) drop<C>(p, b * p.H + h, t0, n, i * width, tile);
    }
  }

  // out += weights V over strips i..end.
  PHASE void context(Index b, Index h, Index n, Index i, Index end, Index from, Worker& w) {
    const IO* v = values(b, h, i);
    const Index positions = std::min(end * width, p.S) - i * width;
    C* tile = strip_of(w, i, from, n);
    if (n <= few) {
      for (Index s = 0; s < positions; s += width, tile += n * width)
        add_values(v + s * p.v_stride[2], std::min(Index(width), positions - s), n, tile, w.out.get());
      return;
    }
    C* packed = w.packed.get();
    pack_rows<C, IO>(v, p.v_stride[2], positions, p.Dv, C(1), packed, ldv);
    product<C>(n, p.Dv, {tile, width, 1, width, n * width}, positions, packed, ldv, w.out.get(), ldv);
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
  PHASE void write(Index b, Index h, Index t0, Index n, Team team) const {
    for (Index t = team.from(n); t < team.to(n); ++t)
      write_row<C, IO>(team.size, [&](int m) { return workers[team.base + m].out.get() + t * ldv; }, C(1), p.Dv,
                       (IO*)p.out + ((b * p.H + h) * p.T + t0 + t) * p.Dv);
  }
};

}  // namespace dwindle
