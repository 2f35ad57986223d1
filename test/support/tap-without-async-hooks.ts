import asyncHooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

// Imported before tap, which finds the test of an uncaught error by a hook that each promise and timer runs through: a sixth to a fifth of the CPU of
// a test file. Without the hook, an uncaught error is one of the file.

const { createHook } = asyncHooks
let adopt: (asyncId: number, type: string, parentId: number) => void = () => undefined

const replaceCreateHook = (replacement: typeof createHook): void => {
  asyncHooks.createHook = replacement
  syncBuiltinESMExports()
}

replaceCreateHook(({ init }) => {
  adopt = (asyncId, type, parentId) => init?.(asyncId, type, parentId, {})
  const hook: ReturnType<typeof createHook> = { enable: () => hook, disable: () => hook }
  return hook
})

/** To be called once tap is loaded. `fileId` gives the asynchronous id of the test that stands for the file. */
export const handleUncaughtErrors = (fileId: () => number): void => {
  replaceCreateHook(createHook)
  process.prependListener('uncaughtExceptionMonitor', () => adopt(asyncHooks.executionAsyncId(), 'ERROR', fileId()))
}
