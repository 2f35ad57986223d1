import { formatOptionValue } from '../../src/config/describe-options.ts'
import type { OptionDescription } from '../../src/config/describe-options.ts'
import { code, formatTable } from './markdown-tables.ts'

export const formatOptionsTable = (options: readonly OptionDescription[]): string =>
  formatTable(
    ['option', 'type', 'default', 'example', 'description'],
    options.map(({ path, type, required, default: value, examples, description, hasChildren }) => [
      code(path),
      type,
      required ? 'required' : value === undefined || hasChildren ? '' : formatValue(value),
      examples.map(formatValue).join(', '),
      description,
    ]),
  )

const formatValue = (value: unknown): string => code(formatOptionValue(value))
