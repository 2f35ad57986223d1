import type { Schema } from '../plugin/options-schema.ts'
import type { Path } from '../plugin/plugin.ts'
import { isJsonObject } from '../util/json.ts'
import { formatOptionPath } from './ajv-errors.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import type { Problem } from './problem.ts'
import { childSchema } from './schema.ts'

/** A warning for each item of a list that lacks an option which another item has, where the schema says that this matters. */
export const findUnevenItems = ({ source, namePath, owner, schema }: OptionsLocation): readonly Problem[] => {
  const visitItems = (items: readonly unknown[], schema: Schema | undefined, inside: Path): readonly Problem[] => {
    const properties = schema?.type === 'object' ? Object.entries(schema.properties ?? {}) : []
    return properties.flatMap(([key, { whenOthersHaveIt }]) => {
      const without = [...items.entries()].filter(([, item]) => isJsonObject(item) && !Object.hasOwn(item, key))
      if (whenOthersHaveIt === undefined || without.length === items.length) return []
      return without.map(([index]) => {
        const itemPath = [...inside, index]
        const message = `${formatOptionPath(owner, itemPath)} has no \`${key}\`, but another item has: ${whenOthersHaveIt}`
        return source.problemAt([...namePath, ...itemPath], message, `add \`${key}\``)
      })
    })
  }
  const visit = (value: unknown, schema: Schema | undefined, inside: Path): readonly Problem[] => {
    if (Array.isArray(value)) {
      const items = value.flatMap((item, i) => visit(item, childSchema(schema, i), [...inside, i]))
      return [...items, ...visitItems(value, childSchema(schema, 0), inside)]
    }
    return isJsonObject(value)
      ? Object.entries(value).flatMap(([key, item]) => visit(item, childSchema(schema, key), [...inside, key]))
      : []
  }
  return visit(source.valueAt(namePath), schema, [])
}
