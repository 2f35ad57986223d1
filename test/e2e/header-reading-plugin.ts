import { copyReply, definePlugin, isFailure } from '../../src/plugin/plugin.ts'

/** An external plugin in TypeScript that reads of the caller what it did not declare; the compiler has no objection. */
export default definePlugin({
  name: 'header-reading',
  summary: 'Answers with the header x-user.',
  options: { type: 'object', properties: {} },
  create: () => async (call, next) => {
    const reply = await next(call)
    return isFailure(reply)
      ? reply
      : copyReply(reply, { result: Buffer.from(JSON.stringify({ user: call.origin.headers['x-user'] ?? null })) })
  },
})
