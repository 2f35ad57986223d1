import { setTimeout as wait } from 'node:timers/promises'
import type { GatewayProcess } from '../support/deployment.ts'
import { connectWs, post } from '../support/rpc-client.ts'

const balanceRequest = (id: number): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'eth_getBalance', params: [`0x${id.toString(16).padStart(40, '0')}`, 'latest'] })

/** Callers who leave before they are answered, or in the middle of a conversation: four a second, until it is over. */
export const disconnectEarly = async (gateway: GatewayProcess, key: string, host: string, isOver: () => boolean): Promise<void> => {
  for (let id = 1; !isOver(); id += 10) {
    await wait(250)
    const leaving = AbortSignal.timeout(id % 4)
    void post(gateway.http(key), balanceRequest(id), { host, signal: leaving }).catch(() => undefined)
    const talker = await connectWs(gateway.ws(key), { host })
    for (let i = 0; i < 8; i++) talker.send(balanceRequest(id + i))
    await talker.nextMessage()
    if (id % 20 === 1) await talker.close()
    else talker.socket.terminate()
  }
}
