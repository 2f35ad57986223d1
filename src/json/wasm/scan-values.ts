// AssemblyScript, compiled to dist/src/json/json-bytes.wasm together with search-members.ts. ../wasm-scanner.ts calls it.
//
// Reads on inside a JSON value, by the same table of states as the scanner in JavaScript. It stops before each byte that it cannot
// take: the scanner reads that byte, and knows what to do or what to report.

// Of the memory: the table of states, then whether each container is an object, then what holds texts. Bytes behind a text are read
// and ignored.
const containersOffsetBytes: usize = 0x2800

// The states by which this code decides, as in ../grammar.ts; all others it takes from the table.
const stateValue: u32 = 0
const stateFirstElement: u32 = 1
const stateName: u32 = 2
const stateFirstName: u32 = 3
const stateColon: u32 = 4
const stateAfter: u32 = 5
const stateString: u32 = 6
const stateZero: u32 = 30
const stateInteger: u32 = 31
const stateFraction: u32 = 33
const stateExponent: u32 = 36
const stateFailed: u32 = 37

/** The state of the scan before and after scan(). */
export let state: u32 = 0
export let depth: u32 = 0
/** The string being read is a name. */
export let isName: bool = false
/** How many values began directly in the outermost container. */
export let childCount: u32 = 0
export let hasNonAscii: bool = false

export function setState(newState: u32, newDepth: u32, newIsName: bool): void {
  state = newState
  depth = newDepth
  isName = newIsName
  childCount = 0
  hasNonAscii = false
}

function skipPlainBytes(from: usize, end: usize): usize {
  for (let at = from; at < end; at += 16) {
    const bytes = v128.load(at)
    const special = v128.or(
      v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c))),
      i8x16.lt_s(bytes, i8x16.splat(0x20)), // signed: bytes above 0x7f too
    )
    const mask = i8x16.bitmask(special)
    if (mask !== 0) {
      const found = at + <usize>ctz(mask)
      return found < end ? found : end
    }
  }
  return end
}

function canEndNumber(current: u32): bool {
  return current === stateZero || current === stateInteger || current === stateFraction || current === stateExponent
}

function isSpace(byte: u32): bool {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

// Two bytes that mostly follow a string in texts without space, as one load reads them.
const colonAndQuote: u32 = 0x223a
const commaAndQuote: u32 = 0x222c

/**
 * Reads `byteLength` bytes from `offset` of the memory on, inside a container at `baseDepth`. Returns how many were read: fewer when
 * the container ends, or at a byte that is an error or begins a container deeper than `maxDepth`. One function, whose state is in local
 * variables: cut into several, which must share it as global ones, it took 5 % longer for logs, and a fifth for indented texts.
 */
export function scan(offset: u32, byteLength: u32, baseDepth: u32, maxDepth: u32): u32 {
  const end = <usize>offset + byteLength
  let at = <usize>offset
  let current = state
  let level = depth
  let inName = isName
  let isObject = load<u8>(containersOffsetBytes + level - 1) !== 0
  while (at < end) {
    if (current === stateString) {
      at = skipPlainBytes(at, end)
      if (at === end) break
      const byte = <u32>load<u8>(at)
      if (byte === 0x22) {
        at++
        const next = at + 1 < end ? <u32>load<u16>(at) : 0
        if (next === (inName ? colonAndQuote : commaAndQuote)) {
          inName = !inName && isObject
          if (!inName && level === baseDepth) childCount++
          at += 2
        } else {
          current = inName ? stateColon : stateAfter
        }
        continue
      } else {
        const next = <u32>load<u8>((stateString << 8) + byte)
        if (next === stateFailed) break
        if (byte >= 0x80) hasNonAscii = true
        current = next
      }
      at++
    } else if (current <= stateAfter) {
      const byte = <u32>load<u8>(at)
      if (isSpace(byte)) {
        at++
        continue
      }
      if (current === stateAfter || (current === stateFirstElement && byte === 0x5d) || (current === stateFirstName && byte === 0x7d)) {
        if (byte === 0x2c && current === stateAfter) {
          current = isObject ? stateName : stateValue
        } else {
          if (byte !== <u32>(isObject ? 0x7d : 0x5d) || level === baseDepth) break
          level--
          isObject = load<u8>(containersOffsetBytes + level - 1) !== 0
          current = stateAfter
        }
      } else if (current === stateColon) {
        if (byte !== 0x3a) break
        current = stateValue
      } else if (current === stateName || current === stateFirstName) {
        if (byte !== 0x22) break
        inName = true
        current = stateString
      } else {
        if (byte === 0x22) {
          inName = false
          current = stateString
        } else if (byte === 0x7b || byte === 0x5b) {
          if (level === maxDepth) break
          if (level === baseDepth) childCount++
          isObject = byte === 0x7b
          store<u8>(containersOffsetBytes + level, <u8>isObject)
          level++
          current = isObject ? stateFirstName : stateFirstElement
          at++
          continue
        } else {
          const next = <u32>load<u8>((stateValue << 8) + byte)
          if (next === stateFailed) break
          current = next
        }
        if (level === baseDepth) childCount++
      }
      at++
    } else {
      const next = <u32>load<u8>((current << 8) + <u32>load<u8>(at))
      if (next === stateFailed) {
        if (!canEndNumber(current)) break
        current = stateAfter
      } else {
        current = next
        at++
      }
    }
  }
  state = current
  depth = level
  isName = inName
  return <u32>(at - offset)
}
