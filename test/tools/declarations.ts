import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** An exported declaration of a source file. */
export interface Declaration {
  readonly name: string
  readonly kind: 'function' | 'class' | 'interface' | 'type' | 'const'
  /** The first paragraph of its comment; empty without one. */
  readonly description: string
  /** Of an interface; none of others. */
  readonly members: readonly Member[]
}

/** A member of an interface. */
interface Member {
  readonly name: string
  /** `name` of a property, `name(params): Result` of a function. */
  readonly signature: string
  /** Of a property: the text of its type. */
  readonly type: string
  readonly isOptional: boolean
  readonly description: string
}

/** What a module exports, in its order: what it declares, and what it exports of other modules. */
export const exportsOf = (file: string): readonly Declaration[] => {
  const source = readFileSync(file, 'utf8')
  const names = Array.from(
    source.matchAll(/^export (?:(?:type )?\{([^}]+)\} from|(?:const|class|interface|type) (\w+))/gm),
    ([, list, own]) => (own === undefined ? (list?.match(/\w+/g) ?? []) : [own]),
  )
  return names.flat().map(name => findDeclaration(file, name))
}

/** The declaration behind a name that the file declares, imports or passes on; throws where there is none. */
export const findDeclaration = (file: string, name: string): Declaration => {
  const source = readFileSync(file, 'utf8')
  const declared = new RegExp(`${commentPattern}^(?:export )?(const|class|interface|type) ${name}\\b(.*)`, 'm').exec(source)
  if (declared !== null) {
    const [text, comment = '', kind = '', rest = ''] = declared
    const isFunction = kind === 'const' && /^\s*(?:: \{$|=.*(?:=>|\($|\): ))/.test(rest)
    const bodyStart = declared.index + text.length
    return {
      name,
      kind: isFunction ? 'function' : (kind as Declaration['kind']), // one of those that the pattern has
      description: descriptionOf(comment),
      members: kind === 'interface' ? membersIn(source.slice(bodyStart, source.indexOf('\n}\n', bodyStart) + 1)) : [],
    }
  }
  const from = Array.from(source.matchAll(/^(?:import|export) (?:type )?\{([^}]+)\} from '(\.[^']+)'/gm)).find(([, list = '']) =>
    list.split(',').some(each => each.trim() === name),
  )?.[2]
  if (from === undefined) throw new Error(`${file} has no ${name}`)
  return findDeclaration(join(dirname(file), from), name)
}

const commentPattern = String.raw`(?:/\*\*((?:(?!\*/)[^])*)\*/\n *)?`

const membersIn = (body: string): readonly Member[] =>
  Array.from(
    body.matchAll(new RegExp(`\\n {2}${commentPattern}(?:readonly )?(\\w+)(\\??: [^\\n]*|\\??[(<][^\\n]*)`, 'g')),
    ([, comment = '', name = '', rest = '']) => ({
      name,
      signature: /^\??[(<]/.test(rest) ? name + rest : name,
      type: rest.replace(/^\??: /, ''),
      isOptional: rest.startsWith('?'),
      description: descriptionOf(comment),
    }),
  )

const descriptionOf = (comment: string): string =>
  comment
    .replaceAll(/^ *\* ?/gm, '')
    .trim()
    .split('\n\n')[0]!
    .replaceAll('\n', ' ')
