import t from '../support/tap.ts'
import { SharedAccessLog } from '../../src/cluster/shared-logs.ts'
import type { WorkerSetting } from '../../src/cluster/worker-messages.ts'
import type { WorkerPool } from '../../src/cluster/worker-pool.ts'

t.test('an access log that one worker cannot open is changed in none, and the primary says that it could not be opened anew', async t => {
  const set: WorkerSetting[] = []
  const pool = {
    newId: () => 1,
    requestAll: async () =>
      [undefined, 'cannot open the log file: EMFILE'].map(problem => ({
        kind: 'accessLogSet',
        id: 1,
        ...(problem !== undefined && { problem }),
      })),
    set: (setting: WorkerSetting) => void set.push(setting),
  } as unknown as WorkerPool // the reply is of the kind that was asked for
  const accessLog = new SharedAccessLog({ sample: 1, file: '/access.log' }, pool)
  const before = accessLog.settings
  await t.rejects(accessLog.change({ ...before, target: 'none' }), { message: 'cannot open the log file: EMFILE' })
  t.equal(accessLog.settings, before)
  t.match(set, [{ kind: 'accessLog', settings: before }])
  await t.rejects(accessLog.reopen(), { message: 'cannot open the log file: EMFILE' })
})
