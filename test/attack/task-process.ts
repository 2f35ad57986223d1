import { fork } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'

/**
 * Runs a file of this folder as a process of its own, with a task; resolves with the result that it reports. `isBackground` gives the process
 * mostly the CPU time that no other process wants, so that those that are measured do not wait for it.
 */
export const runTaskProcess = async <Task, Result>(file: string, task: Task, isBackground = false): Promise<Result> => {
  // Without NODE_OPTIONS: tap would load itself into the process.
  const child = fork(new URL(`./${file}.js`, import.meta.url), [JSON.stringify(task)], { env: { ...process.env, NODE_OPTIONS: '' } })
  if (isBackground && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
  const exited = once(child, 'exit').then(([code]) => Promise.reject(new Error(`${file} exited with ${code}`)))
  const [result] = await Promise.race([once(child, 'message'), exited])
  child.kill('SIGKILL')
  return result as Result // sent by reportResult()
}

/** The task of this process. */
export const takeTask = <Task>(): Task => JSON.parse(process.argv[2] ?? '') // written by runTaskProcess()

/** Reports the result of this process, which is then killed. */
export const reportResult = (result: object): void => void process.send?.(result)
