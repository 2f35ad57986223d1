import t from '../support/tap.ts'
import { SharedAccessLog } from '../../src/cluster/shared-logs.ts'
import type { AccessLogSettings } from '../../src/services/access-log.ts'
import type { WorkerProblem } from '../../src/cluster/worker-messages.ts'
import { TestClock } from '../support/fakes.ts'
import { connectWorker } from '../support/worker-channel.ts'

t.test('an access log that one worker cannot open is changed in none, and the primary says that it could not be opened anew', async t => {
  const clock = new TestClock()
  const replies: readonly WorkerProblem[] = [{}, { problem: 'cannot open the log file: EMFILE' }]
  const received: AccessLogSettings[] = []
  const workers = replies.map(answer => {
    const { worker, primary } = connectWorker(clock)
    primary.handle({
      accessLog(settings, reply) {
        received.push(settings)
        reply(answer)
      },
      reopenAccessLog: (_, reply) => reply(answer),
    })
    return worker
  })
  const pool: ConstructorParameters<typeof SharedAccessLog>[1] = {
    callAll: (name, args, timeoutMs) => Promise.all(workers.map(worker => worker.call(name, args, timeoutMs))),
    set: (_, set) => workers.forEach(set),
  }
  const accessLog = new SharedAccessLog({ sample: 1, file: '/access.log' }, pool)
  const before = accessLog.settings
  await t.rejects(accessLog.change({ ...before, target: 'none' }), { message: 'cannot open the log file: EMFILE' })
  t.equal(accessLog.settings, before)
  t.same(received.splice(2), [before, before])
  await t.rejects(accessLog.reopen(), { message: 'cannot open the log file: EMFILE' })
})
