//===- cluster.cuh - blocks that run at the same time and reach each other's shared memory ---===//
//
// The blocks of a launch may form clusters (sm_90 and up): groups of up to 8 blocks, neighbours in x, that run at the
// same time. They wait for each other at the cluster's barrier, read and write each other's shared memory, and arrive
// at each other's barriers. The kernel says how many they are, `__cluster_dims__(8, 1, 1)`, and so does its plan. In a
// launch without clusters, every block is a cluster of one.
//
// Three rules hold for all of it:
// - A block may have started later than this one: before the first access to its shared memory, and after it has
//   initialised its barriers (fenceBarriers), all wait for each other by syncCluster().
// - A block may end earlier than this one: at the end of a kernel, all blocks wait for each other by syncCluster(), or
//   for what others bring, so that none ends before the last access to its shared memory.
// - At a barrier in shared memory where other blocks arrive, or bytes of storeAsync(), threads wait by
//   waitClusterBarrier().
//
// These need sm_90; on GPUs before it they trap.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// The place of a T in the shared memory of a block of the cluster; `+` moves it by elements.
template <class T> class ClusterPointer {
public:
  KILN_DEVICE explicit ClusterPointer(u32 address) : address(address) {}

  KILN_DEVICE friend ClusterPointer operator+(ClusterPointer base, u32 elements) {
    return ClusterPointer(base.address + elements * u32(sizeof(T)));
  }

  /// Only for instructions in this folder.
  KILN_DEVICE u32 raw() const { return address; }

private:
  u32 address;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// The index of this block in its cluster, and the number of the cluster's blocks.
KILN_DEVICE u32 clusterRank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
KILN_DEVICE u32 clusterBlocks() {
  u32 blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

/// The two halves of syncCluster(): every thread of every block arrives, and waits later. What threads did before they
/// arrived is visible to those that have waited. All threads of a warp call them together. Threads that have left the
/// kernel are not waited for. No warp should come to waitCluster() only behind a wait for another one of its block:
/// with racecheck of compute-sanitizer, all warps of a block wait for each other there.
KILN_DEVICE void arriveCluster(Site = Site::current()) {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// The first half where nothing was done that others must see, but that barriers were initialised (fenceBarriers()): it
/// does not wait for earlier writes. The emulator takes it for arriveCluster().
KILN_DEVICE void arriveClusterAtStart(Site = Site::current()) {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
KILN_DEVICE void waitCluster(Site = Site::current()) {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where the shared object at `own` of this block lies in the block of that rank: all blocks have the same layout.
template <class T> KILN_DEVICE ClusterPointer<T> inBlock(T *own, u32 rank, Site = Site::current()) {
  u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(SharedAddress(own).raw()), "r"(rank));
  return ClusterPointer<T>(address);
}

/// Accesses to the shared memory of a block of the cluster.
struct ClusterAccess {
  KILN_DEVICE static Packet<2> read(u32 source, Packet<2> packet) {
    asm volatile("ld.shared::cluster.b16 %0, [%1];" : "=h"(packet.half) : "r"(source) : "memory");
    return packet;
  }
  KILN_DEVICE static Packet<4> read(u32 source, Packet<4> packet) {
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(packet.words[0]) : "r"(source) : "memory");
    return packet;
  }
  KILN_DEVICE static Packet<8> read(u32 source, Packet<8> packet) {
    asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];"
                 : "=r"(packet.words[0]), "=r"(packet.words[1])
                 : "r"(source)
                 : "memory");
    return packet;
  }
  KILN_DEVICE static Packet<16> read(u32 source, Packet<16> packet) {
    asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(packet.words[0]), "=r"(packet.words[1]), "=r"(packet.words[2]), "=r"(packet.words[3])
                 : "r"(source)
                 : "memory");
    return packet;
  }
  template <int kBytes, class T> KILN_DEVICE static Packet<kBytes> load(ClusterPointer<T> source, Site, const void *) {
    return read(source.raw(), Packet<kBytes>{});
  }

  KILN_DEVICE static void write(u32 target, Packet<2> packet) {
    asm volatile("st.shared::cluster.b16 [%0], %1;" ::"r"(target), "h"(packet.half) : "memory");
  }
  KILN_DEVICE static void write(u32 target, Packet<4> packet) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(target), "r"(packet.words[0]) : "memory");
  }
  KILN_DEVICE static void write(u32 target, Packet<8> packet) {
    asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(target), "r"(packet.words[0]), "r"(packet.words[1])
                 : "memory");
  }
  KILN_DEVICE static void write(u32 target, Packet<16> packet) {
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(packet.words[0]),
                 "r"(packet.words[1]), "r"(packet.words[2]), "r"(packet.words[3])
                 : "memory");
  }
  template <int kBytes, class T>
  KILN_DEVICE static void store(ClusterPointer<T> target, const Packet<kBytes> &packet, Site, const void *) {
    write(target.raw(), packet);
  }

  KILN_DEVICE static void send(u32 target, Packet<4> packet, u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(target),
                 "r"(packet.words[0]), "r"(barrier)
                 : "memory");
  }
  KILN_DEVICE static void send(u32 target, Packet<8> packet, u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(target),
                 "r"(packet.words[0]), "r"(packet.words[1]), "r"(barrier)
                 : "memory");
  }
  KILN_DEVICE static void send(u32 target, Packet<16> packet, u32 barrier) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(target),
        "r"(packet.words[0]), "r"(packet.words[1]), "r"(packet.words[2]), "r"(packet.words[3]), "r"(barrier)
        : "memory");
  }
  template <int kBytes, class T>
  KILN_DEVICE static void storeAsync(ClusterPointer<T> target, const Packet<kBytes> &packet,
                                     ClusterPointer<SharedBarrier> barrier, Site, const void *) {
    send(target.raw(), packet, barrier.raw());
  }
};

/// Arrives at a barrier of a block of the cluster. What this thread did before in shared memory, its own block's or
/// another's, is visible to threads of that block that wait for the phase by waitClusterBarrier(). It waits for all
/// earlier writes of the thread, to global memory too; storeAsync() does not.
KILN_DEVICE void arrive(ClusterPointer<SharedBarrier> barrier, Site = Site::current()) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier.raw()) : "memory");
}
/// The same behind a wait for products (warpgroup.cuh): whoever has waited for the phase may write to the shared memory
/// that they have read. It makes no writes visible, and so waits for none; the emulator takes it for arrive().
KILN_DEVICE void arriveBehindProducts(ClusterPointer<SharedBarrier> barrier, Site = Site::current()) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier.raw()) : "memory");
}
/// Arrives, and makes the phase wait for `bytes` more bytes.
KILN_DEVICE void arriveExpecting(ClusterPointer<SharedBarrier> barrier, u32 bytes, Site = Site::current()) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier.raw()),
               "r"(bytes)
               : "memory");
}

/// Behind waitClusterBarrier(): what those that have arrived had written to global memory is visible.
KILN_DEVICE void acquireCluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }

/// Like waitBarrier(), for a barrier of this block at which other blocks arrive, or bytes of storeAsync(). It makes the
/// cluster's shared memory visible, and no global memory: that would cost the L1 cache its contents.
KILN_DEVICE void waitClusterBarrier(SharedBarrier &barrier, u32 parity, Site = Site::current()) {
  asm volatile("{.reg .pred done;\n"
               "retry: mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra retry;\n"
               "fence.acquire.sync_restrict::shared::cluster.cluster;}" ::"r"(SharedAddress(&barrier).raw()),
               "r"(parity)
               : "memory");
}

#else

KILN_DEVICE u32 clusterRank() {
  asm volatile("trap;");
  return 0;
}
KILN_DEVICE u32 clusterBlocks() {
  asm volatile("trap;");
  return 1;
}
KILN_DEVICE void arriveCluster(Site = Site::current()) { asm volatile("trap;"); }
KILN_DEVICE void arriveClusterAtStart(Site = Site::current()) { asm volatile("trap;"); }
KILN_DEVICE void waitCluster(Site = Site::current()) { asm volatile("trap;"); }
template <class T> KILN_DEVICE ClusterPointer<T> inBlock(T *, u32, Site = Site::current()) {
  asm volatile("trap;");
  return ClusterPointer<T>(0);
}

struct ClusterAccess {
  template <int kBytes, class T> KILN_DEVICE static Packet<kBytes> load(ClusterPointer<T>, Site, const void *) {
    asm volatile("trap;");
    return {};
  }
  template <int kBytes, class T> KILN_DEVICE static void store(ClusterPointer<T>, const Packet<kBytes> &, Site,
                                                               const void *) {
    asm volatile("trap;");
  }
  template <int kBytes, class T>
  KILN_DEVICE static void storeAsync(ClusterPointer<T>, const Packet<kBytes> &, ClusterPointer<SharedBarrier>, Site,
                                     const void *) {
    asm volatile("trap;");
  }
};

KILN_DEVICE void arrive(ClusterPointer<SharedBarrier>, Site = Site::current()) { asm volatile("trap;"); }
KILN_DEVICE void arriveBehindProducts(ClusterPointer<SharedBarrier>, Site = Site::current()) { asm volatile("trap;"); }
KILN_DEVICE void arriveExpecting(ClusterPointer<SharedBarrier>, u32, Site = Site::current()) { asm volatile("trap;"); }
KILN_DEVICE void acquireCluster() { asm volatile("trap;"); }
KILN_DEVICE void waitClusterBarrier(SharedBarrier &, u32, Site = Site::current()) { asm volatile("trap;"); }

#endif

#else

template <class T> class ClusterPointer {
public:
  KILN_DEVICE explicit ClusterPointer(T *pointer) : place(pointer) {}

  KILN_DEVICE friend ClusterPointer operator+(ClusterPointer base, u32 elements) {
    return ClusterPointer(base.place + elements);
  }

  KILN_DEVICE T *pointer() const { return place; }

private:
  T *place;
};

KILN_DEVICE u32 clusterRank() { return emulatedThread->clusterRank; }
KILN_DEVICE u32 clusterBlocks() { return emulatedThread->clusterBlocks; }

KILN_DEVICE void arriveCluster(Site site = Site::current()) { emulatedThread->arriveCluster(site); }
KILN_DEVICE void arriveClusterAtStart(Site site = Site::current()) { arriveCluster(site); }
KILN_DEVICE void waitCluster(Site site = Site::current()) { emulatedThread->waitCluster(site); }

template <class T> KILN_DEVICE ClusterPointer<T> inBlock(T *own, u32 rank, Site site = Site::current()) {
  return ClusterPointer<T>(static_cast<T *>(emulatedThread->inBlock(own, rank, site)));
}

struct ClusterAccess {
  template <int kBytes, class T>
  KILN_DEVICE static Packet<kBytes> load(ClusterPointer<T> source, Site site, const void *code) {
    Packet<kBytes> packet;
    emulatedThread->readCluster(&packet, source.pointer(), kBytes, site, code);
    return packet;
  }
  template <int kBytes, class T>
  KILN_DEVICE static void store(ClusterPointer<T> target, const Packet<kBytes> &packet, Site site, const void *code) {
    emulatedThread->writeCluster(target.pointer(), &packet, kBytes, site, code);
  }
  template <int kBytes, class T>
  KILN_DEVICE static void storeAsync(ClusterPointer<T> target, const Packet<kBytes> &packet,
                                     ClusterPointer<SharedBarrier> barrier, Site site, const void *code) {
    emulatedThread->sendCluster(target.pointer(), &packet, kBytes, &barrier.pointer()->state, site, code);
  }
};

KILN_DEVICE void arrive(ClusterPointer<SharedBarrier> barrier, Site site = Site::current()) {
  emulatedThread->arriveAtBarrier(&barrier.pointer()->state, 0, site);
}
KILN_DEVICE void arriveBehindProducts(ClusterPointer<SharedBarrier> barrier, Site site = Site::current()) {
  arrive(barrier, site);
}
KILN_DEVICE void arriveExpecting(ClusterPointer<SharedBarrier> barrier, u32 bytes, Site site = Site::current()) {
  emulatedThread->arriveAtBarrier(&barrier.pointer()->state, bytes, site);
}
KILN_DEVICE void acquireCluster() {}
KILN_DEVICE void waitClusterBarrier(SharedBarrier &barrier, u32 parity, Site site = Site::current()) {
  emulatedThread->waitForPhase(&barrier.state, parity, /*isOfCluster=*/true, site);
}

#endif

/// Waits for every thread of every block of the cluster, and makes what each wrote to memory visible to the others.
KILN_DEVICE void syncCluster(Site site = Site::current()) {
  arriveCluster(site);
  waitCluster(site);
}

template <int V, class T> KILN_DEVICE Packed<T, V> loadFromCluster(ClusterPointer<T> source, Site site,
                                                                   const void *code) {
  Packed<T, V> result;
#pragma unroll
  for (int first = 0; first < V; first += result.kElements)
    result.packets[first / result.kElements] = ClusterAccess::load<kAccessBytes<T, V>>(source + u32(first), site, code);
  return result;
}

/// Loads V elements (float, bf16 or f16) from the shared memory of a block of the cluster, as load and loadPacked of
/// vec.cuh.
template <int V, class T>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE Vec<float, V> load(ClusterPointer<T> source, Site site = Site::current()) {
  return loadFromCluster<V>(source, site, KILN_EMULATED_CALLER).unpack();
}
template <int V, class T>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE Packed<T, V> loadPacked(ClusterPointer<T> source,
                                                                 Site site = Site::current()) {
  return loadFromCluster<V>(source, site, KILN_EMULATED_CALLER);
}
/// Loads one object of 4, 8 or 16 bytes.
template <class T>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE T load(ClusterPointer<T> source, Site site = Site::current()) {
  return bitCast<T>(ClusterAccess::load<int(sizeof(T))>(source, site, KILN_EMULATED_CALLER));
}

/// Writes V elements to the shared memory of a block of the cluster.
template <class T, int V>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void store(ClusterPointer<T> target, const Vec<float, V> &values,
                                                    Site site = Site::current()) {
  constexpr int kElements = kAccessElements<T, V>;
#pragma unroll
  for (int first = 0; first < V; first += kElements)
    ClusterAccess::store(target + u32(first), makePacket<T, kAccessBytes<T, V>>(values.data + first), site,
                         KILN_EMULATED_CALLER);
}
/// Writes one object of 4, 8 or 16 bytes.
template <class T>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void store(ClusterPointer<T> target, const T &value,
                                                    Site site = Site::current()) {
  ClusterAccess::store(target, bitCast<Packet<int(sizeof(T))>>(value), site, KILN_EMULATED_CALLER);
}

/// Starts to write V elements to the shared memory of a block of the cluster, and returns. The bytes, 4, 8 or a
/// multiple of 16, arrive at a barrier of that block, in its current phase, of which this thread must know; the block
/// expects them by an arrival of the same phase (arriveExpecting), before or after. Those that have waited for the
/// phase see them, and what this warp did in shared memory before.
template <class T, int V>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void storeAsync(ClusterPointer<T> target, const Vec<float, V> &values,
                                                         ClusterPointer<SharedBarrier> barrier,
                                                         Site site = Site::current()) {
  constexpr int kElements = kAccessElements<T, V>;
#pragma unroll
  for (int first = 0; first < V; first += kElements)
    ClusterAccess::storeAsync(target + u32(first), makePacket<T, kAccessBytes<T, V>>(values.data + first), barrier,
                              site, KILN_EMULATED_CALLER);
}
/// The same for one object of 4, 8 or 16 bytes.
template <class T>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void storeAsync(ClusterPointer<T> target, const T &value,
                                                         ClusterPointer<SharedBarrier> barrier,
                                                         Site site = Site::current()) {
  ClusterAccess::storeAsync(target, bitCast<Packet<int(sizeof(T))>>(value), barrier, site, KILN_EMULATED_CALLER);
}

} // namespace kiln
