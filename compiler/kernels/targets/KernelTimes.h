//===- KernelTimes.h - fitted constants of cost models --------------------===//
#pragma once

namespace kiln {

/// Times, rates and shares in the cost models of kernels that follow neither from a template nor from a datasheet: they
/// were fitted to timings of kernels on one GPU. They are read from one graphs/targets/*.times.toml, which a target's
/// file names. The unit is seconds unless stated otherwise. Each struct has the numbers of one family's `estimate`,
/// from the table with the family's name.
struct KernelTimes {
  double clock = 0;          ///< cycles per second of a multiprocessor
  double memoryLatency = 0;  ///< of one load
  double blockStart = 0;     ///< between two blocks of a launch
  double blockReduction = 0; ///< barriers of a sum over a block

  struct RowProduct {
    double fullLoads = 0;      ///< bytes in flight per multiprocessor that reach the full memory rate
    double loadsPower = 0;     ///< with fewer bytes, the rate falls with their share to this power
    double doubleBuffered = 0; ///< share of two stages' bytes that is in flight
    double imbalancePower = 0; ///< uneven columns cost (largest share / mean) to this power
    double arithmeticRate = 0; ///< reached share of the instruction rate
    double normalize = 0;      ///< normalising rows, constant part
    double normalizeWarp = 0;  ///< normalising rows, for each warp of the block
    double tile = 0;           ///< epilogue of a tile
    double turn = 0;           ///< from one stage of loads to the next
  } rowProduct;                ///< gemv_row_simt

  struct MmaWarps {
    double fullLoads = 0;      ///< these three as for gemv_row_simt
    double loadsPower = 0;     ///<
    double imbalancePower = 0; ///<
    double rowsRate = 0;       ///< bytes per second of the rows that a multiprocessor reads
    double chain = 0;          ///< cycles from one product of a chain to the next
    double product = 0;        ///< cycles between two products of a warp
    double issue = 0;          ///< cycles between two products of a quarter of a multiprocessor
    double turn = 0;           ///< cycles from one stage of copies to the next
    double ahead = 0;          ///< of the kernel before, in which weights arrive
    double block = 0;          ///< a multiprocessor's further block
    double ends = 0;           ///< start and end of a launch
  } mmaWarps;                  ///< gemv_mma_warps

  struct MmaRows {
    double round = 0; ///< one round of loads, including the wait for neighbouring warps
  } mmaRows;          ///< gemv_mma

  struct MmaTiled {
    double ends = 0;     ///< start and end of a block: its first steps arrive, its last results leave
    double output = 0;   ///< each output of a warp
    double unhidden = 0; ///< share of the shorter of reading and multiplying that is not hidden by the longer
  } mmaTiled;            ///< gemm_mma

  struct MmaSplit {
    double sum = 0; ///< adding up the parts
  } mmaSplit;       ///< gemm_mma_split_k

  struct WgmmaTiled {
    double rate = 0;           ///< share of the tensor cores' rate that products reach
    double loadBytes = 0;      ///< bytes a cycle that a multiprocessor loads
    double l2Bytes = 0;        ///< bytes a cycle that L2 gives, for each multiprocessor of the GPU
    double gap = 0;            ///< cycles between two steps of the depth
    double range = 0;          ///< cycles between two ranges of the depth, from the third on
    double output = 0;         ///< epilogue of a tile, constant part
    double element = 0;        ///< epilogue of a tile, for each element of a warpgroup
    double ends = 0;           ///< first step of a launch
    double multicast = 0;      ///< cycles that blocks that copy for each other add to a step
    double cluster = 0;        ///< start and end of a launch with clusters
    double exchange = 0;       ///< of sums between the parts of the depth, constant part
    double exchangeRate = 0;   ///< bytes per second of the sums that a multiprocessor gives
    double clusteredShare = 0; ///< share of the multiprocessors that clusters of 4 or 8 blocks can fill
  } wgmmaTiled;                ///< gemm_wgmma

  struct WgmmaRows {
    double ends = 0;         ///< start and end of a launch
    double rowsRate = 0;     ///< bytes per second of the rows that a multiprocessor reads
    double step = 0;         ///< one step of a warpgroup
    double exchange = 0;     ///< of sums within a cluster, constant part
    double exchangeRate = 0; ///< bytes per second of the sums that a multiprocessor gives
  } wgmmaRows;               ///< gemv_wgmma

  struct DecodeLayers {
    double layer = 0; ///< of a layer, beside the time of its bytes
    double row = 0;   ///< of a layer, for each row but the first, and each column
    double ends = 0;  ///< start of a launch, with the first weights
  } decodeLayers;     ///< decode_layers

  struct Library {
    double rate = 0; ///< reached share of the tensor cores' rate
    double ends = 0; ///< start and end of a launch: nothing hides its first and last tiles
  } library;         ///< cublaslt_matmul, cublaslt_batched

  struct SplitKv {
    double round = 0;           ///< arithmetic of a warp's round
    double loadRate = 0;        ///< bytes per second that a multiprocessor loads
    double blockStart = 0;      ///< between two blocks, which have position, query and parts of their own
    double tail = 0;            ///< share of a warp's time that is behind the loads of all
    double exchange = 0;        ///< of parts, through memory
    double clusterExchange = 0; ///< within a cluster
  } splitKv;                    ///< attention_split_kv_simt and attention_split_kv_cluster: table attention_split_kv

  struct MmaFlash {
    double gap = 0;  ///< cycles between two steps of a warp
    double ends = 0; ///< start and end of a launch
  } mmaFlash;        ///< attention_mma

  struct WgmmaFlash {
    double gap = 0;     ///< cycles between two steps of a warpgroup
    double alone = 0;   ///< a step of a warpgroup that runs alone, without the gap, as a multiple of its products' time
    double copies = 0;  ///< cycles that a step is longer if the warps that multiply copy, too
    double ringOf2 = 0; ///< cycles that a step is longer if only two tiles of keys are there or on their way
    double busy = 0;    ///< time that a step occupies the multiprocessor, as a multiple of its products' time
    double beside = 0;  ///< time that each other warpgroup adds to a step, as a multiple of its products' time
    double loadRate = 0; ///< bytes of keys and values per second that a multiprocessor loads
    double range = 0;    ///< cycles in which a block adds one more range of keys
    double handOver = 0; ///< cycles of a block of two ways between its two tiles, or for the other's range
    double fill = 0;     ///< each element that is loaded before the first step
    double ends = 0;     ///< start and end of a launch
  } wgmmaFlash;          ///< attention_wgmma
};

} // namespace kiln
