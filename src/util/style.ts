import { WriteStream } from 'node:tty'
import { styleText } from 'node:util'

/** What a part of a text means, and how terminals show it. */
const formats = { error: 'red', warning: 'yellow', ok: 'green', place: 'cyan', title: 'bold', minor: 'dim' } as const

export type Meaning = keyof typeof formats

/** Returns the text in the color of its meaning, or as it is. */
export type Style = (meaning: Meaning, text: string) => string

export const plain: Style = (_meaning, text) => text

const colored: Style = (meaning, text) => (text === '' ? '' : styleText(formats[meaning], text, { validateStream: false }))

/** Colors are for terminals. FORCE_COLOR has them anywhere (`0`: nowhere), and goes before NO_COLOR, as in Node.js itself. */
export const styleOf = ({ isTTY }: { readonly isTTY?: boolean | undefined }, env: Readonly<Record<string, string | undefined>>): Style => {
  if (isTTY !== true && env['FORCE_COLOR'] === undefined) return plain
  return WriteStream.prototype.getColorDepth.call(undefined as never, env) > 1 ? colored : plain // it reads the variables alone
}

const escapeSequence = new RegExp(`(${String.fromCharCode(27)}\\[\\d+m)`)

/** The text cut to so many characters; escape sequences take no room. */
export const truncate = (text: string, chars: number): string => {
  const parts = text.split(escapeSequence)
  let left = chars
  return parts
    .map((part, i) => {
      if (i % 2 === 1) return part
      const shown = part.slice(0, left)
      left -= shown.length
      return shown
    })
    .join('')
}
