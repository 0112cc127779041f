// How threads share a problem, and what every pass needs around its products.
//
// A unit of work is one head of one item, or one item if its heads share a coverage. Long sources
// and left-over units (fewer than threads) are done by teams: each member owns a range of source
// strips, and only sums over a row (softmax, context, gradient of q) are exchanged.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>
#include "gemm.h"
#include "rule.h"

namespace dwindle {

template <class C> Function<C> function(const Curve& curve) {
  Function<C> g{C(curve.s), C(curve.p), {}};
  for (int k = 0; k < TERMS; ++k) g.terms[k] = C(curve.terms[k]);
  return g;
}

// Large blocks that one call leaves to the next: pages fresh from the system cost as much as the
// products on them.
class Kept {
 public:
  // Bytes: smaller ones malloc keeps itself; all together.
  static constexpr std::size_t least = 1 << 16, most = 1 << 26;

  static Kept& blocks() {
    // Never destroyed: a thread may still calculate when the program ends.
    static Kept* all = new Kept;
    return *all;
  }

  // A block of at least `bytes`, which becomes its size; null if there is no memory.
  void* take(std::size_t& bytes) {
    if (bytes >= least) {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.lower_bound(bytes);
          found != free_.end() && found->first / 2 <= bytes) {
        const auto [size, block] = *found;
        free_.erase(found), held_ -= size, bytes = size;
        return block;
      }
    }
    return std::aligned_alloc(64, bytes);
  }

  void give(void* block, std::size_t bytes) {
    if (bytes < least || bytes > most) return std::free(block);
    const std::lock_guard lock(mutex_);
    if (held_ + bytes > most) {  // sizes have changed: begin anew
      for (const auto& [size, old] : free_) std::free(old);
      free_.clear(), held_ = 0;
    }
    free_.emplace(bytes, block), held_ += bytes;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
  std::size_t held_ = 0;
};

template <class C> class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { release(); }

  C* get(Index n) {
    if (std::size_t bytes = round_up((n > 0 ? n : 1) * Index(sizeof(C)), 64); bytes > bytes_) {
      release();
      data_ = static_cast<C*>(Kept::blocks().take(bytes));
      if (!data_) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return data_;
  }
  C* get() const { return data_; }

 private:
  C* data_ = nullptr;
  std::size_t bytes_ = 0;

  void release() {
    if (data_) Kept::blocks().give(data_, bytes_);
    data_ = nullptr, bytes_ = 0;
  }
};

class Barrier {
 public:
  void wait(int members) {
    const int round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins)
      // More threads than cores: let the others arrive.
      if (spins > 4096) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0}, round_{0};
};

// The members that share one unit; `base` is the first one's place among all workers.
struct Team {
  int base, rank, size;
  Barrier* barrier;
  void wait() const {
    if (size > 1) barrier->wait(size);
  }
  // The part of 0..n that is this member's.
  Index from(Index n) const { return n * rank / size; }
  Index to(Index n) const { return n * (rank + 1) / size; }
};

// How many threads share one unit from the start: a tile of rows x S should not exceed 2 MB a
// thread.
inline int team_size(const Problem& p, Index bytes) {
  const Index heads = p.share_heads ? p.H : 1;
  return int(std::clamp<Index>(heads * std::min(p.rows, p.T) * p.S * bytes >> 21, 1, p.threads));
}

// Runs run(unit, team) for every unit: as many whole rounds as there are, then the rest by larger
// teams.
template <class Run> void share(Index units, Index threads, int least, Index strips, Run run) {
  std::atomic<Index> next{0};
  std::vector<Barrier> barriers(threads), rest(threads);
  auto thread = [&](int id, int count) {
    int size = std::min(least, count), teams = count / size, team = id / size;
    const Index whole = units / teams * teams, left = units - whole;
    // As threads are free, some neighbours at a time: their memory comes in one stream.
    if (size == 1) {
      const Index some = std::max<Index>(whole / (16 * count), 1);
      for (Index u; (u = next.fetch_add(some)) < whole;)
        for (Index end = std::min(u + some, whole); u < end; ++u) run(u, Team{id, 0, 1, nullptr});
    } else if (team < teams) {
      for (Index u = team; u < whole; u += teams)
        run(u, Team{team * size, id % size, size, &barriers[team]});
    }
    if (!left) return;
    size = std::max<int>(size, std::min<Index>(count / left, std::max<Index>(strips / 2, 1)));
    team = id / size;
    if (team < left) run(whole + team, Team{team * size, id % size, size, &rest[team]});
  };
  // Numbered here and not by OpenMP: clang's runtime starts these threads, but omp_get_thread_num
  // may be that of torch's, which was there first and knows nothing of them.
  std::atomic<int> arrived{0};
#pragma omp parallel num_threads(int(threads))
  {
    const int id = arrived.fetch_add(1);
#pragma omp barrier
    thread(id, arrived.load());
  }
}

// Which weights are dropped: a hash of the seed and the place, so that the backward pass finds the
// same.
struct Dropout {
  std::uint32_t below, k0, k1;
  INLINE Dropout(const Problem& p, Index head, Index t)
      : below(std::uint32_t(p.dropout * 4294967296.0)) {
    std::uint64_t z =
        std::uint64_t(p.seed) + 0x9E3779B97F4A7C15ull * std::uint64_t(head * p.T + t + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    k0 = std::uint32_t(z), k1 = std::uint32_t(z >> 32);
  }
  INLINE bool drops(std::uint32_t s) const {
    std::uint32_t h = s * 0x9E3779B1u + k0;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h ^= k1;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return (h ^ (h >> 16)) < below;
  }
};
// Drops from a strip of rows and scales what stays.
template <class C>
void drop(const Problem& p, Index head, Index t0, Index rows, Index s0, C* tile) {
  constexpr int width = Simd<C>::width;
  const C scale = C(1 / (1 - p.dropout));
  for (Index t = 0; t < rows; ++t, tile += width) {
    const Dropout dropout(p, head, t0 + t);
    for (int j = 0; j < width; ++j)
      tile[j] = dropout.drops(std::uint32_t(s0 + j)) ? C(0) : tile[j] * scale;
  }
}

// Softcap, bias and mask on a strip of raw scores; columns beyond the source are -inf. `slope` (or
// null) takes the derivative of the softcap.
template <class C> void adjust(const Problem& p, Index b, Index h, Index t0, Index rows, Index s0,
                               Index columns, C* tile, C* slope) {
  constexpr int n = Simd<C>::lanes, width = Simd<C>::width;
  constexpr C never = -std::numeric_limits<C>::infinity();
  if (p.softcap) {
    for (Index i = 0; i < rows * width; i += n) {
      const Vec<C> y = hyperbolic_tangent(load(tile + i) * C(1 / p.softcap));
      store(tile + i, y * C(p.softcap));
      if (slope) store(slope + i, C(1) - y * y);
    }
  }
  const bool edge = columns < width, dense = !edge && p.mask && p.mask_stride[3] == 1;
  bool open = false;  // the row has nothing to add
  if (!p.bias && !p.mask && !edge) return;
  alignas(64) C added[width] = {};
  const auto all_set = [](const std::uint8_t* mask) {
    std::uint8_t least = 1;
    for (Index j = 0; j < width; ++j) least = std::min(least, mask[j]);
    return least != 0;
  };
  for (Index t = 0; t < rows; ++t, tile += width) {
    // Else: as the row before.
    if (t == 0 || (p.bias && p.bias_stride[2]) || (p.mask && p.mask_stride[2])) {
      for (int j = 0; j < width; ++j) added[j] = j < columns ? C(0) : never;
      if (p.bias) {
        const C* bias = (const C*)p.bias + b * p.bias_stride[0] + h * p.bias_stride[1] +
                        (t0 + t) * p.bias_stride[2] + s0 * p.bias_stride[3];
        for (Index j = 0; j < columns; ++j) added[j] = bias[j * p.bias_stride[3]];
      }
      if (p.mask) {
        const std::uint8_t* mask = p.mask + b * p.mask_stride[0] + h * p.mask_stride[1] +
                                   (t0 + t) * p.mask_stride[2] + s0 * p.mask_stride[3];
        if (dense && !p.bias && all_set(mask)) {  // most strips of a causal mask
          open = true;
          continue;
        }
        open = false;
        if (dense)
          for (Index j = 0; j < width; ++j) added[j] = mask[j] ? added[j] : never;
        else
          for (Index j = 0; j < columns; ++j)
            added[j] = mask[j * p.mask_stride[3]] ? added[j] : never;
      }
    }
    if (open) continue;
    store(tile, load(tile) + load(added));
    store(tile + n, load(tile + n) + load(added + n));
  }
}

// Which positions of a strip are protected, and which have coverage.
template <class C>
void set_flags(const Problem& p, Index b, Index h, Index s0, Index columns, Flags<C>& flags) {
  flags.any_plain = flags.any_counts = false;
  for (Index j = 0; j < Simd<C>::width; ++j) {
    const Index at = s0 + j;
    const bool inside = j < columns;
    const bool counts = inside && at < p.P && (!p.source || p.source[b * p.source_stride + at]);
    const bool plain =
        inside &&
        (!counts ||
         (p.is_protected && p.is_protected[b * p.protected_stride[0] + h * p.protected_stride[1] +
                                           at * p.protected_stride[2]]));
    flags.plain[j] = plain, flags.counts[j] = counts;
    flags.any_plain |= plain, flags.any_counts |= counts;
  }
}

// The code for a strip, by what is on it: places that differ from others, no coverage at all, or
// neither.
template <class Code> struct Codes {
  Code some, plain, all;
  template <class C>
  Code operator()(Scope scope, const std::vector<Flags<C>>& flags, const std::uint8_t* felt) const {
    if (scope == Scope::all) return all;
    if (!flags[0].any_counts) return plain;
    return scope == Scope::some && !flags[0].any_plain && !felt ? all : some;
  }
};

// The flags of rows of a block, or null if all of them feel coverage.
inline const std::uint8_t* felt_rows(const Problem& p, Index b, Index t0, Index rows) {
  const std::uint8_t* felt = p.felt ? p.felt + b * p.felt_stride + t0 : nullptr;
  return felt && std::find(felt, felt + rows, 0) == felt + rows ? nullptr : felt;
}

// Where the strips from..to end that a block of rows of some heads sees at all: a causal mask, or
// padding, hides the rest.
inline Index visible(const Problem& p, Index b, Index first, Index heads, Index t0, Index rows,
                     Index from, Index to, Index width) {
  if (!p.mask || p.mask_stride[3] != 1) return to;
  const Index different = p.mask_stride[1] ? heads : 1, lines = p.mask_stride[2] ? rows : 1;
  for (; to > from; --to) {
    const Index s0 = (to - 1) * width, columns = std::min(width, p.S - s0);
    for (Index k = 0; k < different; ++k) {
      const std::uint8_t* mask = p.mask + b * p.mask_stride[0] + (first + k) * p.mask_stride[1] +
                                 t0 * p.mask_stride[2] + s0;
      for (Index t = lines - 1; t >= 0; --t) {  // the last row of a causal mask sees most
        const std::uint8_t* row = mask + t * p.mask_stride[2];
        if (std::any_of(row, row + columns, [](std::uint8_t x) { return x != 0; })) return to;
      }
    }
  }
  return from;
}

// Whether the rule must look at the flags of places at all.
inline Scope scope_of(const Problem& p) {
  if (p.share_heads) return Scope::shared;
  const bool inside = p.source || p.P < p.S;  // a source of no positions has no address
  return inside || p.felt || (p.is_protected && p.mode != PLAIN) ? Scope::some : Scope::all;
}

// How many of the positions from s0 on, `columns` at most, have coverage.
inline Index covered(const Problem& p, Index s0, Index columns) {
  return std::clamp<Index>(p.P - s0, 0, columns);
}

}  // namespace dwindle
