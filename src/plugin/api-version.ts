/**
 * The version of what `tollgate/plugin` exports: raised when plugins that were written for it can no longer run. A plugin that
 * names another version is refused at load.
 */
export const pluginApiVersion = 1
