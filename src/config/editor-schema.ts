import type { ObjectSchema, Schema, StringSchema } from '../plugin/options-schema.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import type { Path } from '../util/json.ts'
import { methodTableSchema } from '../services/method-table/table-schema.ts'
import { formats } from './formats.ts'
import { accountsSchema } from './account-files.ts'
import { gatewaySchema } from './gateway-options.ts'
import { networkSchema } from './network-options.ts'
import { childSchema, entryNameOf, isFixedPath, requiredPaths, walkSchema } from './schema.ts'
import type { JsonSchema } from './schema.ts'
import { useStepSchema } from './steps.ts'

/** An external plugin, by the text that `use` has in the files. */
export interface UsedPlugin {
  readonly use: string
  readonly plugin: LoadablePlugin
}

/** The kinds of files that Tollgate reads. */
export const schemaNames = ['network', 'gateway', 'methods', 'accounts'] as const

export type SchemaName = (typeof schemaNames)[number]

/**
 * JSON Schemas (draft 07) of the files of a configuration, for YAML editors: completion, help on hover, and most mistakes while
 * typing. They accept what the loader accepts; the rules that no schema can express are those of `tollgate check`.
 */
export const editorSchemas = (
  plugins: readonly LoadablePlugin[],
  used: readonly UsedPlugin[] = [],
): Readonly<Record<SchemaName, JsonSchema>> => ({
  network: fileSchema('A network of Tollgate', {
    ...toEditorSchema(networkSchema, true),
    properties: { ...propertiesOf(networkSchema), pipeline: pipelineSchema(plugins, used) },
    definitions: Object.fromEntries([...plugins, ...used.map(({ plugin }) => plugin)].map(plugin => [plugin.name, optionsSchema(plugin)])),
  }),
  gateway: fileSchema('gateway.yaml of Tollgate', toEditorSchema(gatewaySchema, true)),
  accounts: fileSchema('Accounts of Tollgate, for `tollgate accounts apply`', toEditorSchema(accountsSchema, true)),
  methods: fileSchema('A method table of Tollgate', withoutId(methodTableSchema)),
})

/** The text of the file that holds a schema. */
export const formatSchema = (schema: JsonSchema): string => `${JSON.stringify(schema, undefined, 2)}\n`

const fileSchema = (title: string, schema: JsonSchema): JsonSchema => ({
  $schema: 'http://json-schema.org/draft-07/schema#',
  title,
  ...schema,
  type: 'object',
  // Sections that only hold anchors.
  patternProperties: { '^x-': {} },
})

/** A relative `$id` would change what the editor takes as the place of the file. */
const withoutId = ({ $id: _, ...schema }: JsonSchema): JsonSchema => schema

const pipelineSchema = (plugins: readonly LoadablePlugin[], used: readonly UsedPlugin[]): JsonSchema => {
  const { description, examples } = networkSchema.properties.pipeline
  return {
    type: 'array',
    minItems: 1,
    description: withExamples(description, undefined, examples),
    items: {
      type: 'object',
      minProperties: 1,
      additionalProperties: false,
      properties: {
        ...Object.fromEntries(plugins.map(plugin => [plugin.name, optionsOf(plugin)])),
        ...propertiesOf(useStepSchema),
      },
      // One schema with conditions, as a choice between schemas makes editors complain about each of them.
      allOf: [
        { if: { required: ['use'] }, else: { maxProperties: 1 } },
        ...[...plugins.map(plugin => ({ use: plugin.name, plugin })), ...used].map(({ use, plugin }) => ({
          if: { required: ['use'], properties: { use: { const: use } } },
          then: { properties: { with: optionsOf(plugin) } },
        })),
      ],
    },
  }
}

const optionsOf = ({ name }: LoadablePlugin): JsonSchema => ({ $ref: `#/definitions/${name}` })

const optionsSchema = ({ options, summary }: LoadablePlugin): JsonSchema => ({
  ...toEditorSchema(options, true),
  description: summary,
})

const propertiesOf = ({ properties = {} }: ObjectSchema): JsonSchema =>
  Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, toEditorSchema(property)]))

/**
 * A schema of options as editors know it: the loader's own keywords become standard ones, and a variable may stand for any scalar.
 * At the top begin the paths with dots of `requires`.
 */
const toEditorSchema = (schema: Schema, isTop = false): JsonSchema => {
  const { description, examples = [] } = schema
  const defaultValue = 'default' in schema && schema.type !== 'object' ? schema.default : undefined
  const described = {
    ...(description !== undefined && { description: withExamples(description, defaultValue, examples) }),
    ...(defaultValue !== undefined && { default: defaultValue }),
  }
  switch (schema.type) {
    case 'object':
      return {
        // An empty value is an empty map: `- key-auth:` and `limits:`.
        type: schema.entries === undefined ? ['object', 'null'] : 'object',
        ...described,
        properties: propertiesOf(schema),
        additionalProperties: schema.additionalProperties ? toEditorSchema(schema.additionalProperties) : false,
        ...(schema.required !== undefined && { required: schema.required }),
        ...(schema.entries !== undefined && { minProperties: 1, propertyNames: { pattern: entryNameOf(schema.entries).pattern } }),
        ...withConditions([...choiceConditions(schema), ...requirementConditions(schema, isTop)]),
      }
    case 'array':
      return {
        type: 'array',
        ...described,
        items: toEditorSchema(schema.items),
        ...(schema.minItems && { minItems: schema.minItems }),
        ...(schema.maxItems !== undefined && { maxItems: schema.maxItems }),
      }
    case 'string':
      return { ...described, ...stringSchema(schema) }
    case 'boolean':
      return { ...described, anyOf: [{ type: 'boolean' }, variable] }
    case undefined:
      return described
    default: {
      const { type, minimum, maximum, exclusiveMinimum, orAuto } = schema
      const bounds = Object.fromEntries(Object.entries({ minimum, maximum, exclusiveMinimum }).filter(([, bound]) => bound !== undefined))
      return { ...described, anyOf: [{ type, ...bounds }, ...(orAuto ? [{ const: 'auto' }] : []), variable] }
    }
  }
}

/** Conditions, as a choice between schemas makes editors complain about each of them. */
const withConditions = (conditions: readonly JsonSchema[]): JsonSchema => (conditions.length === 0 ? {} : { allOf: conditions })

const choiceConditions = ({ exactlyOneOf }: ObjectSchema): readonly JsonSchema[] => {
  if (exactlyOneOf === undefined) return []
  const [first = '', ...others] = exactlyOneOf.options
  return [
    { if: { not: { anyOf: others.map(other => ({ required: [other] })) } }, then: { required: [first] } },
    ...exactlyOneOf.options.flatMap((one, i) => exactlyOneOf.options.slice(i + 1).map(other => ({ not: { required: [one, other] } }))),
  ]
}

/** Of the options of the map, and at the top of all that have a fixed path. */
const requirementConditions = (schema: ObjectSchema, isTop: boolean): readonly JsonSchema[] =>
  [...walkSchema(schema)].flatMap(({ path, schema: option }) => {
    const beginsAtTop = option.requires?.options.some(name => name.includes('.')) === true
    if (option.requires === undefined || !isFixedPath(path) || (beginsAtTop ? !isTop : path.length !== 1)) return []
    const required = requiredPaths(path, option).map(each => givenAt(each, schema))
    return [{ if: givenAt(path, schema), then: required.length === 1 ? required[0] : { anyOf: required } }]
  })

/** That an option is given: `false`, an empty list and `{}` are none. */
const givenAt = ([name, ...rest]: Path, schema: Schema | undefined): JsonSchema => {
  if (name !== undefined) return { type: 'object', required: [name], properties: { [name]: givenAt(rest, childSchema(schema, name)) } }
  const empty = { boolean: { not: { const: false } }, array: { minItems: 1 }, object: { minProperties: 1 } }
  return Object.entries(empty).find(([type]) => type === schema?.type)?.[1] ?? {}
}

/** `${VAR}` may stand in any text; what it holds is checked by the loader. */
const variablePattern = '\\$\\{'

const variable = { type: 'string', pattern: variablePattern }

const stringSchema = ({ enum: values, format, pattern, minimum, minLength }: StringSchema): JsonSchema => {
  if (values !== undefined) return { anyOf: [{ type: 'string', enum: values }, variable] }
  const accepted = pattern ?? (format === undefined ? undefined : formats[format].pattern)
  return {
    type: 'string',
    // A pattern cannot compare: of a minimum it can tell that it is greater than 0.
    ...(accepted !== undefined && { pattern: `(?:${minimum === undefined ? '' : '(?!0+\\D)'}${accepted})|${variablePattern}` }),
    ...(minLength !== undefined && { minLength }),
  }
}

const withExamples = (description: string, defaultValue: unknown, examples: readonly unknown[]): string =>
  [
    description,
    ...(defaultValue === undefined ? [] : [`Default: ${formatValue(defaultValue)}.`]),
    ...(examples.length === 0 ? [] : [`For example ${examples.map(formatValue).join(' or ')}.`]),
  ].join(' ')

const formatValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
