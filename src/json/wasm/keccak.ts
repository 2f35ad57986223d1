// AssemblyScript, compiled to dist/src/json/json-bytes.wasm together with scan-values.ts. ../keccak-256.ts calls it.
//
// The sponge of Keccak-256: 24 rounds of Keccak-f[1600] for each 136 bytes.

// The places in the memory, as in ../wasm-module.ts.
const hashOffset: usize = 0x60000
const lanesOffset: usize = hashOffset + 256
const constantsOffset: usize = hashOffset + 512

const laneCount: usize = 25
const blockLanes: usize = 17
const roundCount: usize = 24

function lane(at: usize): u64 {
  return load<u64>(hashOffset + (at << 3))
}

/** Moves a lane to its next place, rotated. Returns the lane that was there. */
function move(moved: u64, target: usize, bits: u64): u64 {
  store<u64>(lanesOffset + (target << 3), rotl<u64>(moved, bits))
  return lane(target)
}

/** Writes the constants of the rounds. */
export function prepareKeccak(): void {
  let register: u32 = 1
  for (let round: usize = 0; round < roundCount; round++) {
    let constant: u64 = 0
    for (let j: u32 = 0; j < 7; j++) {
      if (register & 1) constant ^= (<u64>1) << (<u64>((1 << j) - 1))
      register = (register << 1) ^ ((register >> 7) * 0x171)
    }
    store<u64>(constantsOffset + (round << 3), constant)
  }
}

export function resetKeccak(): void {
  memory.fill(hashOffset, 0, laneCount << 3)
}

/** Absorbs so many blocks of 136 bytes. The state, and at the end the hash, is at the begin of the place. */
export function absorbKeccak(offset: usize, blocks: usize): void {
  for (let block: usize = 0; block < blocks; block++) {
    for (let i: usize = 0; i < blockLanes; i++) {
      store<u64>(hashOffset + (i << 3), lane(i) ^ load<u64>(offset + (block * blockLanes + i) * 8))
    }
    permute()
  }
}

function permute(): void {
  for (let round: usize = 0; round < roundCount; round++) {
    const c0 = lane(0) ^ lane(5) ^ lane(10) ^ lane(15) ^ lane(20)
    const c1 = lane(1) ^ lane(6) ^ lane(11) ^ lane(16) ^ lane(21)
    const c2 = lane(2) ^ lane(7) ^ lane(12) ^ lane(17) ^ lane(22)
    const c3 = lane(3) ^ lane(8) ^ lane(13) ^ lane(18) ^ lane(23)
    const c4 = lane(4) ^ lane(9) ^ lane(14) ^ lane(19) ^ lane(24)
    const d0 = c4 ^ rotl<u64>(c1, 1)
    const d1 = c0 ^ rotl<u64>(c2, 1)
    const d2 = c1 ^ rotl<u64>(c3, 1)
    const d3 = c2 ^ rotl<u64>(c4, 1)
    const d4 = c3 ^ rotl<u64>(c0, 1)
    for (let row: usize = 0; row < 25; row += 5) {
      const at = hashOffset + (row << 3)
      store<u64>(at, load<u64>(at) ^ d0)
      store<u64>(at, load<u64>(at, 8) ^ d1, 8)
      store<u64>(at, load<u64>(at, 16) ^ d2, 16)
      store<u64>(at, load<u64>(at, 24) ^ d3, 24)
      store<u64>(at, load<u64>(at, 32) ^ d4, 32)
    }
    store<u64>(lanesOffset, lane(0))
    let moved = lane(1)
    moved = move(moved, 10, 1)
    moved = move(moved, 7, 3)
    moved = move(moved, 11, 6)
    moved = move(moved, 17, 10)
    moved = move(moved, 18, 15)
    moved = move(moved, 3, 21)
    moved = move(moved, 5, 28)
    moved = move(moved, 16, 36)
    moved = move(moved, 8, 45)
    moved = move(moved, 21, 55)
    moved = move(moved, 24, 2)
    moved = move(moved, 4, 14)
    moved = move(moved, 15, 27)
    moved = move(moved, 23, 41)
    moved = move(moved, 19, 56)
    moved = move(moved, 13, 8)
    moved = move(moved, 12, 25)
    moved = move(moved, 2, 43)
    moved = move(moved, 20, 62)
    moved = move(moved, 14, 18)
    moved = move(moved, 22, 39)
    moved = move(moved, 9, 61)
    moved = move(moved, 6, 20)
    moved = move(moved, 1, 44)
    for (let row: usize = 0; row < 25; row += 5) {
      const from = lanesOffset + (row << 3)
      const b0 = load<u64>(from)
      const b1 = load<u64>(from, 8)
      const b2 = load<u64>(from, 16)
      const b3 = load<u64>(from, 24)
      const b4 = load<u64>(from, 32)
      const to = hashOffset + (row << 3)
      store<u64>(to, b0 ^ (~b1 & b2))
      store<u64>(to, b1 ^ (~b2 & b3), 8)
      store<u64>(to, b2 ^ (~b3 & b4), 16)
      store<u64>(to, b3 ^ (~b4 & b0), 24)
      store<u64>(to, b4 ^ (~b0 & b1), 32)
    }
    store<u64>(hashOffset, lane(0) ^ load<u64>(constantsOffset + (round << 3)))
  }
}
