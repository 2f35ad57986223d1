/** Loaded when a command needs them: most need none. */
export const loadBuiltInPlugins = async () => (await import('../../plugins/index.ts')).plugins
