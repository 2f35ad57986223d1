import type { AnyPlugin } from './define-plugin.ts'

/** A plugin without what create() needs. That is loaded where a pipeline names the plugin: a start without it reads and compiles less. */
interface DeferredPlugin extends Omit<AnyPlugin, 'create'> {
  load(): Promise<AnyPlugin>
}

/** `load` imports a plugin that has the same definition, and so the types that definePlugin() has checked. */
export const deferPlugin = (
  definition: Pick<AnyPlugin, 'name' | 'summary' | 'options'>,
  load: () => Promise<{ readonly default: AnyPlugin }>,
): DeferredPlugin => ({ ...(definition as Omit<AnyPlugin, 'create'>), load: async () => (await load()).default })

/** What configurations are checked against, and documentation is made of. */
export type LoadablePlugin = AnyPlugin | DeferredPlugin

export const toLoaded = async (plugin: LoadablePlugin): Promise<AnyPlugin> => ('load' in plugin ? plugin.load() : plugin)
