import t from 'tap'
import * as undici from 'undici'
import buildConnector from 'undici/lib/core/connect.js'
import Client from 'undici/lib/dispatcher/client.js'

// connection-pool.ts imports these modules, which are not in the API of undici.
t.test('the private modules of undici hold what undici exports', async t => {
  t.equal(Client, undici.Client)
  t.equal(buildConnector, undici.buildConnector)
})
