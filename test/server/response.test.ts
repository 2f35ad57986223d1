import t from 'tap'
import { openHttpDate } from '../../src/server/response.ts'
import { TestClock } from '../support/fakes.ts'

t.test('the Date header is formatted anew when a second has passed', t => {
  const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
  const read = openHttpDate(clock)
  t.equal(read(), 'Thu, 15 Jan 2026 12:00:00 GMT')
  clock.advance(999)
  t.equal(read(), 'Thu, 15 Jan 2026 12:00:00 GMT')
  clock.advance(1)
  t.equal(read(), 'Thu, 15 Jan 2026 12:00:01 GMT')
  t.end()
})
