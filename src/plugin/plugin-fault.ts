import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

/** The file of an external plugin. */
export interface PluginFile {
  /** Its real path, as in stack traces. */
  readonly path: string
  /** The path as operators see it. */
  readonly shownAs: string
  /** The file has changed since its code was loaded: only a restart loads it anew. */
  readonly isStale?: boolean
}

/** An external plugin, in a network or in a step of one. */
export interface ExternalPlugin {
  readonly network?: string
  readonly name: string
  readonly file: PluginFile
}

/** So long a call waits for an external plugin whose step has no `timeout`. */
export const defaultPluginTimeoutMs = 60_000

/** A bug of an external plugin. Its message names the step, and the file and line of the plugin: for the log, never for callers. */
export class PluginFault extends Error {
  readonly network: string | undefined
  readonly plugin: string
  /** `plugins/region.js:12:7`; without a line where the bug has none. */
  readonly location: string
  /** What happened, and where. */
  readonly description: string

  constructor({ network, name, file }: ExternalPlugin, bug: unknown) {
    const description = describeBug(bug, file)
    super(`plugin ${name}: ${description}`)
    this.name = 'PluginFault'
    this.network = network
    this.plugin = name
    this.location = locateBug(bug, file)
    this.description = description
    this.stack = `${this.name}: ${this.message}${stackOf(bug)}`
  }
}

/** `TypeError: … (plugins/region.js:12:7)`; without a place for the bug of a built-in plugin, whose stack is in the log. */
export const describeBug = (bug: unknown, file: PluginFile | undefined): string => {
  const text = bug instanceof Error ? String(bug) : inspect(bug)
  return file === undefined ? text : `${text} (${locateBug(bug, file)})`
}

/** The place in the plugin's own code, or in a file beside it, that a bug comes from; the file alone if the bug has no such place. */
export const locateBug = (bug: unknown, file: PluginFile): string => {
  const frame = framesOf(bug).find(each => isOfPlugin(each, file))
  return frame === undefined ? file.shownAs : `${join(dirname(file.shownAs), relative(dirname(file.path), frame.path))}:${frame.position}`
}

/** Does the stack of the bug lead through the plugin? */
export const isBugOf = (bug: unknown, file: PluginFile): boolean => framesOf(bug).some(frame => isOfPlugin(frame, file))

/** Did the plugin throw in a timer or the like of its own, so that no function of the gateway was left half done? */
export const isBackgroundBug = (bug: unknown, file: PluginFile): boolean => {
  const frames = framesOf(bug)
  const outermost = frames.findLast(({ path }) => path.startsWith(gatewayFolder) || isOfPlugin({ path }, file))
  return outermost !== undefined && isOfPlugin(outermost, file)
}

/** The plugin's file, or a file beside it that is neither a package nor of the gateway. */
const isOfPlugin = ({ path }: Pick<StackFrame, 'path'>, file: PluginFile): boolean => {
  const folder = join(dirname(file.path), '/')
  const isBeside = path.startsWith(folder) && !path.startsWith(gatewayFolder)
  return path === file.path || (isBeside && !path.slice(folder.length).includes('node_modules/'))
}

/** The compiled files of the gateway. */
const gatewayFolder = fileURLToPath(new URL('../../', import.meta.url))

/** A line of a stack. */
interface StackFrame {
  readonly path: string
  /** `12:7` */
  readonly position: string
}

const framesOf = (bug: unknown): readonly StackFrame[] =>
  [...stackOf(bug).matchAll(framePattern)].map(([, file = '', position = '']) => ({ path: toPath(file), position }))

/** `at handle (file:///etc/tollgate/region.js:12:7)` or `at file:///etc/tollgate/region.js:12:7`; bounded, as a message may look so, too. */
const framePattern = /^ {1,8}at (?:.{0,200} \()?((?:file:\/\/)?\/[^)\n]{0,1000}?):(\d{1,7}:\d{1,7})\)?$/gm

const toPath = (file: string): string => (file.startsWith('file:') ? fileURLToPath(file) : file)

/** The lines of the stack below the message. */
const stackOf = (bug: unknown): string => /\n +at [^]*/.exec((bug instanceof Error && bug.stack) || '')?.[0] ?? ''
