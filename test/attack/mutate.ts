import type { SeededRandom } from '../simulation/seeded-random.ts'

/** A change of a text. */
type Mutation = (text: string, random: SeededRandom) => string

/** Texts that parsers, validators and formatters stumble over. */
const troublesomeTexts = [
  '',
  '\0',
  '\u2028',
  '\ud800',
  '\ufeff',
  '{',
  '}',
  '[',
  ']',
  '"',
  '\\',
  ',',
  ':',
  '\t',
  '\r\n',
  'null',
  'true',
  '-0',
  '1e400',
  '-1',
  '0.1',
  '12345678901234567890',
  '0x',
  '0xzz',
  '0x00',
  '"0x0"',
  `0x${'f'.repeat(64)}`,
  'latest',
  'pending',
  '"__proto__"',
  '"constructor"',
  '"id":1,',
  '"id":null,',
  '"method":"eth_chainId",',
  '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[',
  '{"a":'.repeat(70),
  'x'.repeat(5_000),
] as const

/** The longest piece that is deleted or repeated. */
const maxPieceChars = 40

const splice = (text: string, start: number, deletedChars: number, inserted: string): string =>
  text.slice(0, start) + inserted + text.slice(start + deletedChars)

const positionIn = (text: string, random: SeededRandom): number => random.integer(0, text.length)

const mutations: readonly [Mutation, ...Mutation[]] = [
  (text, random) => splice(text, positionIn(text, random), random.integer(1, maxPieceChars), ''),
  (text, random) => splice(text, positionIn(text, random), 0, random.pick(troublesomeTexts)),
  (text, random) => splice(text, positionIn(text, random), random.integer(1, 8), random.pick(troublesomeTexts)),
  (text, random) => splice(text, positionIn(text, random), 1, String.fromCharCode(random.integer(0, 255))),
  (text, random) => text.slice(0, positionIn(text, random)),
  (text, random) => {
    const start = positionIn(text, random)
    return splice(text, start, 0, text.slice(start, start + random.integer(1, maxPieceChars)))
  },
  (text, random) => {
    const lines = text.split('\n')
    const [from, to] = [random.integer(0, lines.length - 1), random.integer(0, lines.length)]
    return lines.toSpliced(to, 0, ...lines.slice(from, from + random.integer(1, 3))).join('\n')
  },
  (text, random) => {
    const lines = text.split('\n')
    return lines.toSpliced(random.integer(0, lines.length - 1), 1).join('\n')
  },
]

/** The text with one to four random changes. */
export const mutate = (text: string, random: SeededRandom): string => {
  let mutated = text
  for (let count = random.integer(1, 4); count > 0; count--) mutated = random.pick(mutations)(mutated, random)
  return mutated
}
