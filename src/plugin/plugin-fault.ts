import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

/** The file of an external plugin. */
export interface PluginFile {
  /** Its real path, as in stack traces. */
  readonly path: string
  /** The path as operators see it. */
  readonly shownAs: string
}

/** A bug of an external plugin. Its message names the step, and the file and line of the plugin: for the log, never for callers. */
export class PluginFault extends Error {
  readonly plugin: string
  /** `plugins/region.js:12:7`; without a line where the bug has none. */
  readonly location: string
  /** What happened, and where. */
  readonly description: string

  constructor(plugin: string, file: PluginFile, bug: unknown) {
    const description = describeBug(bug, file)
    super(`plugin ${plugin}: ${description}`)
    this.name = 'PluginFault'
    this.plugin = plugin
    this.location = locateBug(bug, file)
    this.description = description
    const frames = framesOf(bug)
    if (frames !== undefined) this.stack = `${this.name}: ${this.message}${frames}`
  }
}

/** `TypeError: … (plugins/region.js:12:7)`; without a place for the bug of a built-in plugin, whose stack is in the log. */
export const describeBug = (bug: unknown, file: PluginFile | undefined): string => {
  const text = bug instanceof Error ? String(bug) : inspect(bug)
  return file === undefined ? text : `${text} (${locateBug(bug, file)})`
}

/** The place in the plugin's own code, or in a file beside it, that a bug comes from. */
export const locateBug = (bug: unknown, { path, shownAs }: PluginFile): string => {
  const places = [...(framesOf(bug) ?? '').matchAll(framePattern)].map(([, file = '', position = '']) => ({ file: toPath(file), position }))
  const folder = join(dirname(path), '/')
  const place = places.find(({ file }) => file === path || (file.startsWith(folder) && !file.startsWith(gatewayFolder)))
  return place === undefined ? shownAs : `${join(dirname(shownAs), relative(dirname(path), place.file))}:${place.position}`
}

/** The compiled files of the gateway. */
const gatewayFolder = fileURLToPath(new URL('../../', import.meta.url))

/** `at handle (file:///etc/tollgate/region.js:12:7)` or `at file:///etc/tollgate/region.js:12:7`. */
const framePattern = /^ +at (?:.* \()?((?:file:\/\/)?\/[^)\n]*?):(\d+:\d+)\)?$/gm

const toPath = (file: string): string => (file.startsWith('file:') ? fileURLToPath(file) : file)

/** The lines of the stack below the message. */
const framesOf = (bug: unknown): string | undefined => {
  const stack = bug instanceof Error ? bug.stack : undefined
  const start = stack?.search(/\n +at /) ?? -1
  return start < 0 ? undefined : stack?.slice(start)
}
