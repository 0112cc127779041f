// The forward pass: blocks of target rows over whole source rows, so that no T x S tensor is ever
// held.
//
// For each block: scores = Q K^T into a tile that is stored strip by strip (strip, row, column);
// softmax; the rule along the rows of each strip, coverage carried from block to block; out =
// weights V. Heads that share a coverage are done together, each with a tile of its own.
//
// Renormalising multiplies a row by its mass over the sum of its weights. That is known when all
// strips are done, so it is the context that is multiplied; protected weights are divided by the
// factor first, as they shall not change.
#pragma once
#include "work.h"

namespace dwindle {

template <class C> using Diminish = void (*)(ForwardStrip<C>);

template <class IO, class C> class Forward {
 public:
  static constexpr int width = Simd<C>::width, lanes = Simd<C>::lanes;
  // Strips whose scores, exponentials and values stay in cache.
  static constexpr Index chunk = 256 / width;
  static constexpr C safe = 40;    // below, e^score needs no maximum taken off: sums stay in range
  static constexpr Index few = 4;  // up to so many rows (decoding) k and v are read once, unpacked

  Forward(const Problem& p, Codes<Diminish<C>> codes)
      : p(p),
        codes(codes),
        scope(scope_of(p)),
        g1(function<C>(p.g1)),
        g2(function<C>(p.g2)),
        strips((p.S + width - 1) / width),
        rows(std::clamp<Index>(p.rows, 1, std::max<Index>(p.T, 1))),
        heads(p.share_heads ? p.H : 1),
        ldq(padded<C>(p.D)),
        ldv(padded<C>(p.Dv)),
        team(team_size(p, sizeof(C))),
        workers(p.threads) {
    for (Worker& w : workers) {
      w.q.get(rows * ldq);
      w.out.get(heads * rows * ldv);
      w.top.get(heads * rows), w.sum.get(heads * rows), w.wide.get(rows * lanes);
      if (p.renormalise)
        w.sums.get(heads * rows * 2 * lanes), w.mass.get(heads * rows * 2),
            w.scale.get(heads * rows);
      w.packed.get(std::max(round_up(p.D, lanes) * width, chunk * width * ldv));
      w.flags.resize(heads);
      reserve(w, (strips + team - 1) / team);
    }
  }

  void operator()() {
    const Index units = p.H / heads;
    share(p.B * units, p.threads, team, strips,
          [=, this](Index unit, Team team) { together(unit / units, unit % units, team); });
  }

 private:
  struct Worker {
    Buffer<C> q, out, tile, factor, top, sum, wide, sums, mass, scale, total, peak, packed;
    std::vector<Flags<C>> flags;
    std::vector<Index> waits;  // where chunks begin whose context waits for the factors of the rows
  };

  const Problem& p;
  Codes<Diminish<C>> codes;
  Scope scope;
  Function<C> g1, g2;
  Index strips, rows, heads, ldq, ldv;
  int team;
  std::vector<Worker> workers;

  // A member's strips.
  struct Part {
    Index from, to;
  };

  Index parts(Part part) const { return (part.to - part.from + chunk - 1) / chunk; }

  // Room for so many strips: known beforehand, unless OpenMP gives fewer threads than it was asked
  // for.
  void reserve(Worker& w, Index own) const {
    w.tile.get(heads * own * rows * width);
    w.factor.get(heads * ((own + chunk - 1) / chunk) * rows);
    w.total.get(own * width), w.peak.get(own * width);
  }

  // One head of an item, or all of them if they share a coverage.
  void together(Index b, Index first, Team team) {
    Worker& w = workers[team.base + team.rank];
    const Part part{team.from(strips), team.to(strips)};
    const Index own = part.to - part.from, s0 = part.from * width, unit = b * p.coverages() + first;
    reserve(w, own);
    const Index columns = covered(p, s0, own * width), at = unit * p.P + s0;
    C *total = (C*)p.total + at, *peak = (C*)p.peak + at;
    std::fill_n(std::copy_n(total, columns, w.total.get()), own * width - columns, C(0));
    std::fill_n(std::copy_n(peak, columns, w.peak.get()), own * width - columns, C(0));
    const Index blocks = (p.T + rows - 1) / rows;
    for (Index i = 0; i < blocks; ++i) {
      if (i && p.totals) {  // what the backward pass starts this block from
        const Index between = (unit * (blocks - 1) + i - 1) * p.P + s0;
        std::copy_n(w.total.get(), columns, (C*)p.totals + between);
        if (p.peaks) std::copy_n(w.peak.get(), columns, (C*)p.peaks + between);
      }
      block(b, first, i * rows, std::min(rows, p.T - i * rows), part, w, team);
    }
    std::copy_n(w.total.get(), columns, total);
    std::copy_n(w.peak.get(), columns, peak);
  }

  void block(Index b, Index first, Index t0, Index n, Part part, Worker& w, Team team) {
    part.to = visible(p, b, first, heads, t0, n, part.from, part.to, width);
    for (Index k = 0; k < heads; ++k) attention(b, first, k, t0, n, part, w);
    team.wait();
    for (Index k = 0; k < heads; ++k) normalise(b, first + k, k, t0, n, part, w, team);
    std::fill_n(w.out.get(), heads * n * ldv, C(0));
    if (p.renormalise) std::fill_n(w.sums.get(), heads * n * 2 * lanes, C(0));
    w.waits.clear();
    for (Index i = part.from, at = 0; i < part.to; i += chunk, ++at) {
      const Index end = std::min(i + chunk, part.to);
      const bool plain = weights(b, first, t0, n, i, end, part, at, w);
      if (p.renormalise && plain) w.waits.push_back(i);
      else contexts(b, first, n, i, end, part, w);
    }
    if (p.renormalise) renormalise(b, first, t0, n, w, team);
    for (const Index i : w.waits) {
      const Index end = std::min(i + chunk, part.to);
      keep_plain(b, first, n, i, end, part, w);
      contexts(b, first, n, i, end, part, w);
    }
    team.wait();
    for (Index k = 0; k < heads; ++k) write(b, first + k, k, t0, n, team, w);
    team.wait();
  }

  // Scores and their exponentials of one head; w.top and w.sum get their sums.
  void attention(Index b, Index first, Index k, Index t0, Index n, Part part, Worker& w) {
    const Index h = first + k;
    const IO* q = (const IO*)p.q + b * p.q_stride[0] + h * p.q_stride[1] + t0 * p.q_stride[2];
    pack_rows<C, IO>(q, p.q_stride[2], n, p.D, C(p.scale), w.q.get(), ldq);
    std::fill_n(w.top.get() + k * n, n, -std::numeric_limits<C>::infinity());
    std::fill_n(w.sum.get() + k * n, n, C(0));
    // Short sources: the values come while the scores are computed.
    if (part.to - part.from <= chunk && heads == 1) {
      const char* v = (const char*)(values(b, h, part.from));
      for (Index s = part.from * width; s < std::min(part.to * width, p.S);
           ++s, v += p.v_stride[2] * sizeof(IO))
        for (Index d = 0; d < p.Dv * Index(sizeof(IO)); d += 64) __builtin_prefetch(v + d);
    }
    // 0 means: none given.
    const C longest = longest_row(w.q.get(), n) + std::numeric_limits<C>::min();
    for (Index i = part.from, at = 0; i < part.to; i += chunk, ++at) {
      const Index end = std::min(i + chunk, part.to);
      C* reference = w.factor.get() + (k * parts(part) + at) * n;
      if (n > few && !p.bias && scores(b, h, k, t0, n, i, end, part, longest, w)) {
        std::fill_n(reference, n, C(0));
      } else {
        scores(b, h, k, t0, n, i, end, part, 0, w);
        highest(n, w, reference);
        for (Index j = i; j < end; ++j)
          exponentials(n, strip_of(w, k, j, part, n), reference, w.wide.get());
      }
      add_sums(n, k, reference, w);
    }
  }

  C longest_row(const C* q, Index n) const {
    C most = 0;
    for (Index t = 0; t < n; ++t) {
      Vec<C> squares{};
      for (Index d = 0; d < p.D; d += lanes)
        squares += load(q + t * ldq + d) * load(q + t * ldq + d);
      most = std::max(most, sum(squares));
    }
    return std::sqrt(most);
  }

  Index columns_of(Index strip) const { return std::min(Index(width), p.S - strip * width); }
  C* strip_of(Worker& w, Index k, Index strip, Part part, Index n) const {
    return w.tile.get() + (k * (part.to - part.from) + strip - part.from) * n * width;
  }

  const IO* keys(Index b, Index h, Index strip) const {
    return (const IO*)p.k + b * p.k_stride[0] + h / (p.H / p.Hk) * p.k_stride[1] +
           strip * width * p.k_stride[2];
  }

  const IO* values(Index b, Index h, Index strip) const {
    return (const IO*)p.v + b * p.v_stride[0] + h / (p.H / p.Hk) * p.v_stride[1] +
           strip * width * p.v_stride[2];
  }

  // Scores of strips i..end. Given the length of the longest query they become exponentials at
  // once, and w.wide their sums by lane; false, and nothing done, if a score may be too large for
  // that (it is at most the product of the lengths of q and k). Without, w.wide is the largest
  // score by lane.
  PHASE bool scores(Index b, Index h, Index k, Index t0, Index n, Index i, Index end, Part part,
                    C longest, Worker& w) {
    C* wide = w.wide.get();
    std::fill_n(wide, n * lanes, longest ? C(0) : -std::numeric_limits<C>::infinity());
    for (; i < end; ++i) {
      C* tile = strip_of(w, k, i, part, n);
      if (n <= few) {
        dots(keys(b, h, i), columns_of(i), n, w.q.get(), tile);
      } else {
        pack_columns<C, IO>(keys(b, h, i), p.k_stride[2], columns_of(i), p.D, w.packed.get());
        if (longest && !(longest * longest * longest_square(w.packed.get(), p.D) < safe * safe))
          return false;
        strip_product<C>(n, columns_of(i), {w.q.get(), ldq, 1, p.D, 0}, p.D, w.packed.get(), tile);
      }
      adjust<C>(p, b, h, t0, n, i * width, columns_of(i), tile, nullptr);
      if (longest) {
        exponentials(n, tile, nullptr, wide);
      } else {
        for (Index t = 0; t < n; ++t, tile += width)
          store(wide + t * lanes,
                larger<C>(larger<C>(load(tile), load(tile + lanes)), load(wide + t * lanes)));
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

  // The largest score of each row as the reference, or 0 where all are -inf; w.wide is cleared for
  // sums.
  static void highest(Index n, Worker& w, C* reference) {
    for (Index t = 0; t < n; ++t) {
      const C x = top<C>(load(w.wide.get() + t * lanes));
      reference[t] = x == -std::numeric_limits<C>::infinity() ? C(0) : x;
    }
    std::fill_n(w.wide.get(), n * lanes, C(0));
  }

  // The sums of a chunk join those of the row, which are relative to the largest reference so far.
  // A chunk that is wholly masked has none: whatever it took for a reference may lie far above
  // every true score.
  static void add_sums(Index n, Index k, C* reference, Worker& w) {
    C *tops = w.top.get() + k * n, *sums = w.sum.get() + k * n;
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

  // A single row waits for nothing but memory: the next strip comes while this one is multiplied.
  static void fetch_strip(const IO* from, Index stride, Index columns) {
    for (Index i = 0; i < width; ++i, from += stride)
      for (Index d = 0; d < columns; d += 64 / sizeof(IO)) __builtin_prefetch(from + d);
  }

  // tile (n x width) = q k^T for few rows: products along D, summed by a transposition.
  void dots(const IO* k, Index columns, Index n, const C* q, C* tile) const {
    fetch_strip(k + width * p.k_stride[2], p.k_stride[2], p.D);
    for (Index t = 0; t < n; ++t, q += ldq) {
      for (Index half = 0; half < width; half += lanes) {
        Vec<C> sums[lanes] = {};
        const Index valid = std::min(Index(lanes), columns - half);
        for (Index i = 0; i < valid; ++i) {  // row by row, as they lie in memory
          const IO* row = k + (half + i) * p.k_stride[2];
          Index d = 0;
          for (; d + lanes <= p.D; d += lanes) sums[i] += load(q + d) * load_as<C>(row + d);
          if (d < p.D) sums[i] += load(q + d) * load_some<C>(row + d, p.D - d);
        }
        transpose<C>(sums);
        for (int i = 1; i < lanes; ++i) sums[0] += sums[i];
        store(tile + t * width + half, sums[0]);
      }
    }
  }

  // From the references of each chunk to the factors that make its exponentials attention.
  PHASE void normalise(Index b, Index h, Index k, Index t0, Index n, Part part, Worker& w,
                       Team team) {
    for (Index t = 0; t < n; ++t) {
      C highest = -std::numeric_limits<C>::infinity(), all = 0;
      for (int m = 0; m < team.size; ++m)
        highest = std::max(highest, workers[team.base + m].top.get()[k * n + t]);
      for (int m = 0; m < team.size; ++m) {
        const Worker& x = workers[team.base + m];
        const C sum = x.sum.get()[k * n + t], top = x.top.get()[k * n + t];
        if (sum != 0) all += sum * (top == highest ? C(1) : std::exp(top - highest));
      }
      const bool nothing = all == 0;
      const C inverse = nothing ? C(0) : C(1) / all;
      for (Index at = 0; at < parts(part); ++at) {
        C& factor = w.factor.get()[(k * parts(part) + at) * n + t];
        factor = factor == highest ? inverse : std::exp(factor - highest) * inverse;
      }
      if (C* norm = norm_of(b, h, t0 + t); norm && team.rank == 0)
        norm[0] = nothing ? C(0) : highest, norm[1] = inverse;
    }
  }

  C* norm_of(Index b, Index h, Index t) const {
    return p.norms ? (C*)p.norms + p.norm_size() * ((b * p.H + h) * p.T + t) : nullptr;
  }

  // The rule on strips i..end, chunk `at`, and dropout; whether anything there is plain.
  PHASE bool weights(Index b, Index first, Index t0, Index n, Index i, Index end, Part part,
                     Index at, Worker& w) {
    const std::uint8_t* felt = felt_rows(p, b, t0, n);
    bool plain = false;
    for (; i < end; ++i) {
      if (scope != Scope::all) flags_of(b, first, i, w);
      for (const Flags<C>& flags : w.flags) plain |= scope != Scope::all && flags.any_plain;
      C *total = w.total.get() + (i - part.from) * width,
        *peak = w.peak.get() + (i - part.from) * width;
      const Index tile_step = (part.to - part.from) * n * width;
      const Strip<C> strip{n, heads, w.flags.data(), felt, total, peak, g1, g2};
      codes(scope, w.flags, felt)({strip, strip_of(w, 0, i, part, n), tile_step,
                                   w.factor.get() + at * n, parts(part) * n, total, peak,
                                   p.renormalise ? w.sums.get() : nullptr, n * 2 * lanes});
      if (p.dropout)
        for (Index k = 0; k < heads; ++k)
          drop<C>(p, b * p.H + first + k, t0, n, i * width, strip_of(w, k, i, part, n));
    }
    return plain;
  }

  void flags_of(Index b, Index first, Index strip, Worker& w) const {
    for (Index k = 0; k < heads; ++k)
      set_flags<C>(p, b, first + k, strip * width, columns_of(strip), w.flags[k]);
  }

  // w.scale: what each row is multiplied with to keep its mass.
  PHASE void renormalise(Index b, Index first, Index t0, Index n, Worker& w, Team team) {
    for (Index j = 0; j < heads * n * 2; ++j) w.mass.get()[j] = sum(load(w.sums.get() + j * lanes));
    team.wait();
    for (Index j = 0; j < heads * n; ++j) {
      C have = 0, mass = 0;
      for (int m = 0; m < team.size; ++m) {
        const C* own = workers[team.base + m].mass.get() + 2 * j;
        have += own[0], mass += own[1];
      }
      const C scale = have > 0 ? mass / have : C(1);
      w.scale.get()[j] = scale;
      if (C* norm = norm_of(b, first + j / n, t0 + j % n); norm && team.rank == 0)
        norm[2] = scale, norm[3] = have < C(p.least_mass) ? C(0) : C(1) / mass;
    }
  }

  // Divides what is plain in strips i..end by what the whole row will be multiplied with.
  PHASE void keep_plain(Index b, Index first, Index n, Index i, Index end, Part part, Worker& w) {
    for (; i < end; ++i) {
      flags_of(b, first, i, w);
      for (Index k = 0; k < heads; ++k) {
        if (!w.flags[k].any_plain) continue;
        C* tile = strip_of(w, k, i, part, n);
        for (Index t = 0; t < n; ++t, tile += width) {
          const C inverse = C(1) / w.scale.get()[k * n + t];
          for (int j = 0; j < width; j += lanes)
            store(tile + j,
                  load(w.flags[k].plain + j) != C(0) ? load(tile + j) * inverse : load(tile + j));
        }
      }
    }
  }

  // out += weights V over strips i..end, for every head.
  PHASE void contexts(Index b, Index first, Index n, Index i, Index end, Part part, Worker& w) {
    for (Index k = 0; k < heads; ++k)
      context(b, first + k, n, i, end, strip_of(w, k, i, part, n), w.out.get() + k * n * ldv, w);
  }

  void context(Index b, Index h, Index n, Index i, Index end, const C* tile, C* out,
               Worker& w) const {
    const IO* v = values(b, h, i);
    const Index positions = std::min(end * width, p.S) - i * width;
    if (n <= few) {
      for (Index s = 0; s < positions; s += width, tile += n * width)
        add_values(v + s * p.v_stride[2], std::min(Index(width), positions - s), n, tile, out);
      return;
    }
    C* packed = w.packed.get();
    pack_rows<C, IO>(v, p.v_stride[2], positions, p.Dv, C(1), packed, ldv);
    product<C>(n, p.Dv, {tile, width, 1, width, n * width}, positions, packed, ldv, out, ldv);
  }

  // out (n x Dv) += a strip of weights times its values, for few rows.
  void add_values(const IO* v, Index columns, Index n, const C* weights, C* out) const {
    fetch_strip(v + width * p.v_stride[2], p.v_stride[2], p.Dv);
    for (Index t = 0; t < n; ++t, weights += width, out += ldv) {
      Index d = 0;
      for (; d + 4 * lanes <= p.Dv; d += 4 * lanes)
        add_columns<4>(v + d, columns, weights, out + d);
      for (; d + lanes <= p.Dv; d += lanes) add_columns<1>(v + d, columns, weights, out + d);
      if (d == p.Dv) continue;
      Vec<C> x = load(out + d);
      for (Index s = 0; s < columns; ++s)
        x += load_some<C>(v + s * p.v_stride[2] + d, p.Dv - d) * weights[s];
      store(out + d, x);
    }
  }

  // Of that, so many vectors of columns, in registers all the while.
  template <int vectors>
  void add_columns(const IO* v, Index columns, const C* weights, C* out) const {
    Vec<C> x[vectors];
    for (int j = 0; j < vectors; ++j) x[j] = load(out + j * lanes);
    for (Index s = 0; s < columns; ++s, v += p.v_stride[2])
      for (int j = 0; j < vectors; ++j) x[j] += load_as<C>(v + j * lanes) * weights[s];
    for (int j = 0; j < vectors; ++j) store(out + j * lanes, x[j]);
  }

  // The context of one head of the block, summed over the team.
  PHASE void write(Index b, Index h, Index k, Index t0, Index n, Team team, const Worker& w) const {
    for (Index t = team.from(n); t < team.to(n); ++t)
      write_row<C, IO>(
          team.size, [&](int m) { return workers[team.base + m].out.get() + (k * n + t) * ldv; },
          p.renormalise ? w.scale.get()[k * n + t] : C(1), p.Dv,
          (IO*)p.out + ((b * p.H + h) * p.T + t0 + t) * p.Dv);
  }
};

}  // namespace dwindle
