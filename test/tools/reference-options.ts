import { formatOptionValue } from '../../src/config/describe-options.ts'
import type { OptionDescription } from '../../src/config/describe-options.ts'
import { code, formatTable } from './markdown-tables.ts'

export const formatOptionsTable = (options: readonly OptionDescription[]): string => {
  const firstPaths = new Map<string, string>()
  return formatTable(
    ['option', 'value', 'description'],
    options.map(({ path, type, required, requires, default: value, examples, description, hasChildren }) => {
      const same = JSON.stringify([path.split('.').at(-1), type, description])
      const first = firstPaths.get(same)
      if (first === undefined) firstPaths.set(same, path)
      return [
        code(path),
        [
          type,
          ...(required ? ['required'] : value === undefined || hasChildren ? [] : [`default ${formatValue(value)}`]),
          ...(requires.length > 0 ? [`requires ${requires.map(code).join(' or ')}`] : []),
          ...(first === undefined && examples.length > 0 ? [`such as ${examples.map(formatValue).join(', ')}`] : []),
        ].join('; '),
        first === undefined ? description : `As ${code(first)}.`,
      ]
    }),
  )
}

const formatValue = (value: unknown): string => code(formatOptionValue(value))
