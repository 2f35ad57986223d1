import { printablePattern, unprintable } from '../../util/printable-text.ts'

/** Of accounts, people, keys and tokens. */
export const maxNameChars = 64

/** The name, with a number where others have got it before. */
export const numberedName = (name: string, number: number): string => (number === 1 ? name : `${name.slice(0, maxNameChars - 5)}-${number}`)

/** What operators say of accounts and their people, in operations and in files, as the schemas of both have it. */
export const accountName = {
  type: 'string',
  // A name needs no quotes in a shell, and cannot be mistaken for an id.
  pattern: `^(?!acc_)[\\w.@-]{1,${maxNameChars}}$`,
  label: `1 to ${maxNameChars} letters, digits or . _ - @, not starting with acc_`,
  description: `The name of the account, which no other has: 1 to ${maxNameChars} letters, digits or . _ - @ characters.`,
} as const

export const accountPlan = { type: 'string', description: 'The plan of the account: one of `plans` in gateway.yaml.' } as const

export const accountCredits = {
  type: 'integer',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'Daily credits of the account in place of those of its plan; 0: those of its plan.',
} as const

const maxLabelChars = 200

/** On one line. */
const printableText = {
  type: 'string',
  pattern: printablePattern(maxLabelChars),
  label: `a text of at most ${maxLabelChars} printable characters on one line`,
} as const

export const accountLabel = {
  ...printableText,
  description: 'What you call the account besides its name, such as a customer number; an empty text removes it.',
} as const

export const suspensionReason = {
  ...printableText,
  description: 'Why, for the people of the account: the dashboard shows it.',
} as const

/** What a person may do; each role includes those before it. */
export const roles = ['viewer', 'developer', 'owner'] as const

export type Role = (typeof roles)[number]

export const personName = {
  type: 'string',
  pattern: `^[\\w.@+-]{1,${maxNameChars}}$`,
  label: `1 to ${maxNameChars} letters, digits or . _ - + @`,
} as const

/** As people write it; 254 characters at most (RFC 5321). */
export const emailAddress = {
  type: 'string',
  pattern: '^(?=.{1,254}$)[^\\s@<>"(),:;\\[\\]\\\\]{1,64}@([a-zA-Z0-9-]{1,63}\\.)+[a-zA-Z]{2,63}$',
  label: 'an e-mail address',
} as const

/** A zero-width joiner stands between the parts of an emoji; a name of nothing else could not be seen, nor clicked. U+2800 is a blank. */
const hasVisible = '(?=.*[^\\p{Default_Ignorable_Code_Point}\\p{Z}\\u2800])'

/** What people call something: the schema of a member of a body. */
export const givenName = (description: string) =>
  ({
    type: 'string',
    pattern: `^${hasVisible}[^\\s${unprintable}]([^${unprintable}]{0,${maxNameChars - 2}}[^\\s${unprintable}])?$`,
    label: `1 to ${maxNameChars} printable characters, not all of them invisible, without spaces at the ends`,
    description,
  }) as const
