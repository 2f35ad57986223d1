import type { Path } from '../plugin/plugin.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { checkOptions } from './check-options.ts'
import { isObject, isKebabCase, jsonPointer } from './path.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'
import { describeValue } from './describe.ts'

/** How a step of a pipeline is written. */
export interface StepSyntax {
  /** What says which plugin it is; empty when nothing does. */
  readonly pluginName: string
  /** Where that word is a key, or the key of that word. */
  readonly namePath: Path
  readonly optionsPath: Path
  /** The word may be a file or a package. */
  readonly isExternal: boolean
  /** The name that the step gives itself. */
  readonly name?: string
  readonly problems: readonly Problem[]
}

/** The longer way to write a step. */
const useStepSchema = {
  type: 'object',
  description: 'A plugin from outside, or one that stands in the pipeline for the second time.',
  properties: {
    use: {
      type: 'string',
      minLength: 1,
      description: 'A file relative to this one (./my-plugin.js), a package, or a plugin that comes with the gateway.',
    },
    with: { description: 'The options of the plugin.' },
    name: { type: 'string', description: 'What the step is called when its plugin stands twice, in kebab-case.' },
  },
  required: ['use'],
} as const satisfies ObjectSchema

/** Reads the form of the step at this position of the pipeline. */
export const readStepSyntax = (source: YamlFile, index: number): StepSyntax => {
  const stepPath = ['pipeline', index]
  const step = source.valueAt(stepPath)
  if (!isObject(step)) return invalidStep(source, stepPath, step)
  const [pluginName, otherKey] = Object.keys(step)
  if (pluginName === undefined) return invalidStep(source, stepPath, step)
  if (Object.hasOwn(step, 'use')) return readUseStep(source, stepPath)
  const optionsPath = [...stepPath, pluginName]
  const problems = otherKey === undefined ? [] : [secondKeyProblem(source, stepPath, pluginName, otherKey)]
  return { pluginName, namePath: optionsPath, optionsPath, isExternal: false, problems }
}

const invalidStep = (source: YamlFile, stepPath: Path, step: unknown): StepSyntax => {
  // The word is printed, so it must be the file's own.
  const pluginName = source.expandedTexts.has(jsonPointer(stepPath)) ? '' : (source.textAt(stepPath) ?? '')
  const found = isObject(step) ? 'an empty one' : describeValue(source, stepPath)
  const hint = isKebabCase(pluginName) ? `write \`- ${pluginName}: {}\`` : 'for example `- upstream: { timeout: 10s }`'
  const problem = source.problemAt(stepPath, `a step must be a map with one key, the plugin's name, not ${found}`, hint)
  return { pluginName, namePath: stepPath, optionsPath: [...stepPath, pluginName], isExternal: false, problems: [problem] }
}

const secondKeyProblem = (source: YamlFile, stepPath: Path, pluginName: string, otherKey: string): Problem =>
  source.problemAtKey(
    [...stepPath, otherKey],
    `a step has one key, the plugin's name; here are \`${pluginName}\` and \`${otherKey}\``,
    `indent \`${otherKey}\` more if it is an option of ${pluginName}`,
  )

const readUseStep = (source: YamlFile, stepPath: Path): StepSyntax => {
  const checked = checkOptions({ source, namePath: stepPath, owner: '', schema: useStepSchema })
  const name = source.textAt([...stepPath, 'name'])
  const path = [...stepPath, 'name']
  const nameProblems =
    name === undefined || isKebabCase(name)
      ? []
      : [source.problemAt(path, `the name of a step must be kebab-case, not ${describeValue(source, path)}`)]
  return {
    pluginName: source.textAt([...stepPath, 'use']) ?? '',
    namePath: [...stepPath, 'use'],
    optionsPath: [...stepPath, 'with'],
    isExternal: true,
    ...(name !== undefined && { name }),
    problems: [...checked.problems, ...nameProblems],
  }
}
