import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { rootDir } from '../tools/source-files.ts'

/** One rule of the gateway, and a way to break it that tests must notice. */
export interface Mutant {
  readonly rule: string
  /** The source file, which has `text` exactly once; so has its compiled file. */
  readonly file: string
  readonly text: string
  /** What stands in place of `text` while the rule is broken. */
  readonly broken: string
  /** At least one of these must fail then. */
  readonly tests: readonly string[]
}

const failover = (name: string): string => `test/plugins/failover/${name}.test.ts`
const ledger = ['ledger-leases', 'ledger', 'ledger-property'].map(name => `test/services/ledger/${name}.test.ts`)
const httpClient = ['test/services/upstream-client/http-client.test.ts']
const cache = ['test/plugins/cache/cache.test.ts', 'test/plugins/cache/finalized-cache.test.ts']
const heads = ['head-plausibility', 'head-selection', 'head-tracker'].map(name => `test/services/chain-heads/${name}.test.ts`)
const splitLogs = ['test/plugins/upstream/split-logs.test.ts']
const filters = ['test/plugins/subscriptions/filters.test.ts']
const subscriptions = ['test/plugins/subscriptions/subscriptions.test.ts']
const credits = ['test/plugins/credits/credits.test.ts']
const networkAccess = ['test/plugins/network-access.test.ts']
const portal = ['portal-api', 'sign-up', 'oidc', 'operator-api'].map(name => `test/portal/${name}.test.ts`)
const webSocket = ['test/server/ws-connection.test.ts', 'test/server/ws-server.test.ts']
const upstream = ['test/plugins/upstream/upstream.test.ts']

/** A text is short and says the rule itself, so that it outlives changes around it. No types: it is looked up in the compiled file, too. */
export const mutants: readonly Mutant[] = [
  // Ledger and store.
  {
    rule: 'a lease request that was already answered changes nothing',
    file: 'src/store/lease-accounting.ts',
    text: 'request.seq <= record.seq',
    broken: 'request.seq < record.seq',
    tests: ['test/store/store.test.ts', ...ledger],
  },
  {
    rule: 'credits are granted for the day of the store only',
    file: 'src/store/lease-accounting.ts',
    text: 'request.day === today',
    broken: 'true',
    tests: ['test/store/store.test.ts', 'test/services/ledger/ledger-midnight.test.ts'],
  },
  {
    rule: 'a grant is never larger than what is left of the day',
    file: 'src/store/lease-accounting.ts',
    text: 'minCredits - unseenGrant > remaining',
    broken: 'false',
    tests: ['test/store/store.test.ts', ...ledger],
  },
  {
    rule: 'a grant that the process has not seen is not granted again',
    file: 'src/store/lease-accounting.ts',
    text: 'Math.min(desiredCredits - unseenGrant',
    broken: 'Math.min(desiredCredits',
    tests: ['test/store/store.test.ts', ...ledger],
  },
  {
    rule: 'leases of processes that died are forfeited, not held',
    file: 'src/store/lease-accounting.ts',
    text: "isLive(process) ? 'held' : 'forfeited'",
    broken: "'held'",
    tests: ['test/store/store.test.ts'],
  },
  {
    rule: 'a charge is refunded to the lease that paid it, not to a later one',
    file: 'src/services/ledger/account-ledger.ts',
    text: 'lease !== this.#renewal.lease',
    broken: 'false',
    tests: [...ledger, 'test/services/ledger/ledger-midnight.test.ts'],
  },
  {
    rule: 'a charge is refunded once',
    file: 'src/services/ledger/account-ledger.ts',
    text: 'if (this.#isRefunded)',
    broken: 'if (false)',
    tests: ledger,
  },
  {
    rule: 'audit reports leased credits above the limit',
    file: 'src/cli/audit.ts',
    text: 'leased > limit',
    broken: 'false',
    tests: ['test/cli/audit.test.ts'],
  },
  {
    rule: 'a record that has expired is not found',
    file: 'src/store/record-store.ts',
    text: 'record.expires > now',
    broken: 'true',
    tests: ['test/store/store.test.ts', 'test/portal/portal-api.test.ts'],
  },
  {
    rule: 'a key is revoked once, at the first time',
    file: 'src/store/accounts.ts',
    text: 'row.revoked === undefined ? { ...row, revoked: time } : row',
    broken: '{ ...row, revoked: time }',
    tests: ['test/store/store.test.ts'],
  },
  {
    rule: 'a name stands for one account, whoever adds it first',
    file: 'src/store/accounts.ts',
    text: 'guards: [{ ...name, is: undefined }], puts',
    broken: 'puts',
    tests: ['test/store/store.test.ts'],
  },
  {
    rule: 'an account that is used again is not removed',
    file: 'src/store/accounts.ts',
    text: 'row?.deleteAt !== deleteAt',
    broken: 'row === undefined',
    tests: ['test/store/store.test.ts', 'test/services/accounts/account-deletion.test.ts'],
  },
  {
    rule: 'the embedded store writes nothing unless what was read still holds',
    file: 'src/store/lmdb/lmdb-engine.ts',
    text: '!guards.every((guard, i) => meets(guard, found[i]))',
    broken: 'false',
    tests: ['test/store/store.test.ts'],
  },
  // Credits and rates.
  {
    rule: 'accounts with more than a tenth of free failures are refused',
    file: 'plugins/credits/failure-limit.ts',
    text: 'failures > share * calls',
    broken: 'false',
    tests: credits,
  },
  {
    rule: 'a call that is not charged gives its credits back',
    file: 'plugins/credits/charge-and-refund.ts',
    text: '!isCharged(reply)',
    broken: 'false',
    tests: credits,
  },
  {
    rule: 'no bucket takes tokens when another one has too few',
    file: 'src/services/rate-limits.ts',
    text: 'waitMs > 0',
    broken: 'false',
    tests: ['test/plugins/rate-limit/rate-limit.test.ts'],
  },
  {
    rule: 'a bucket holds no more than its burst',
    file: 'src/services/rate-limits.ts',
    text: 'Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond)',
    broken: 'bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond',
    tests: ['test/plugins/rate-limit/rate-limit.test.ts'],
  },
  {
    rule: 'the limit of a key gets its credits back when the account cannot pay',
    file: 'plugins/credits/key-limit.ts',
    text: 'keyCharge.refund()',
    broken: 'void 0',
    tests: credits,
  },
  {
    rule: 'a refund goes to the limit of the key, too',
    file: 'plugins/credits/key-limit.ts',
    text: 'this.#key.refund()',
    broken: 'void 0',
    tests: credits,
  },
  {
    rule: 'a caller is told the limit that is used up first',
    file: 'plugins/credits/key-limit.ts',
    text: 'this.#key.quota.remaining < this.#account.quota.remaining',
    broken: 'false',
    tests: credits,
  },
  {
    rule: 'a call that joined another in flight is no free failure',
    file: 'plugins/credits/charge-and-refund.ts',
    text: "&& reply.cache !== 'hit'",
    broken: '',
    tests: credits,
  },
  {
    rule: 'an account with many free failures gets one attempt a call',
    file: 'plugins/credits/charge-and-refund.ts',
    text: 'recentCalls.isSingleAttempt ?',
    broken: 'false ?',
    tests: credits,
  },
  {
    rule: 'a call that cannot be delivered is taken back from the usage',
    file: 'plugins/credits/charge-and-refund.ts',
    text: 'calls: -1, credits: -this.#usageRecord.credits',
    broken: 'calls: 0, credits: 0',
    tests: credits,
  },
  // Keys and tokens.
  {
    rule: 'a revoked key is refused',
    file: 'src/services/accounts/api-key.ts',
    text: 'revoked !== undefined',
    broken: 'false',
    tests: ['test/services/accounts/account-lookup.test.ts', 'test/services/accounts/api-key.test.ts'],
  },
  {
    rule: 'a key is refused from its end on, also when its look-up is cached',
    file: 'src/services/accounts/key-lookups.ts',
    text: 'lookup.key.expires <= clock.now()',
    broken: 'false',
    tests: ['test/services/accounts/account-lookup.test.ts', 'test/services/accounts/api-key.test.ts'],
  },
  {
    rule: 'a cached look-up ends with the next change of the store',
    file: 'src/services/accounts/key-lookups.ts',
    text: 'entry?.version === this.#version',
    broken: 'true',
    tests: ['test/services/accounts/account-lookup.test.ts', 'test/services/accounts/account-lookup-property.test.ts'],
  },
  {
    rule: 'a key of the issuer that is gone ends the tokens that it has signed',
    file: 'src/services/jwt/token-verifier.ts',
    text: 'cached?.version === this.#keySet.version',
    broken: 'cached !== undefined',
    tests: ['test/services/jwt.test.ts'],
  },
  {
    rule: 'a token that was valid is refused from its end on',
    file: 'src/services/jwt/token-verifier.ts',
    text: 'now < cached.expiresAt',
    broken: 'true',
    tests: ['test/services/jwt.test.ts'],
  },
  {
    rule: 'a key is refused on networks that it does not name',
    file: 'plugins/network-access.ts',
    text: 'key.networks?.includes(network.name) === false',
    broken: 'false',
    tests: networkAccess,
  },
  {
    rule: 'a key that was unknown is read again after an outage of the store',
    file: 'src/services/accounts/key-lookups.ts',
    text: 'this.#unknown.clear()',
    broken: 'void 0',
    tests: ['test/services/accounts/account-lookup.test.ts', 'test/services/accounts/account-lookup-property.test.ts'],
  },
  {
    rule: 'known keys are accepted while the store is unavailable',
    file: 'src/services/accounts/key-lookups.ts',
    text: '|| !this.#isStoreAvailable',
    broken: '',
    tests: ['test/services/accounts/account-lookup.test.ts', 'test/services/accounts/account-lookup-property.test.ts'],
  },
  {
    rule: 'the store is asked for changes each half second',
    file: 'src/services/accounts/key-lookups.ts',
    text: 'requestedAt + changeCheckIntervalMs',
    broken: 'requestedAt + 10 * changeCheckIntervalMs',
    tests: ['test/services/accounts/account-lookup.test.ts', 'test/services/accounts/account-lookup-property.test.ts'],
  },
  {
    rule: 'a rotated key expires after the overlap',
    file: 'src/services/accounts/api-key.ts',
    text: 'rotated.expires > expires',
    broken: 'false && rotated.expires',
    tests: ['test/services/accounts/api-key.test.ts', 'test/services/accounts/recorded-accounts.test.ts', 'test/cli/keys.test.ts'],
  },
  {
    rule: 'a suspension keeps the time at which it began',
    file: 'src/services/accounts/recorded-accounts.ts',
    text: "name === 'suspended' && before !== null && value !== null",
    broken: 'false',
    tests: ['test/services/accounts/recorded-accounts.test.ts'],
  },
  {
    rule: 'a key is refused for methods that it does not name',
    file: 'plugins/network-access.ts',
    text: 'key.methods !== undefined && !isAllowed(method, key.methods)',
    broken: 'false',
    tests: networkAccess,
  },
  {
    rule: 'a key with a list of origins refuses a call without an origin',
    file: 'plugins/network-access.ts',
    text: 'origin !== undefined &&',
    broken: 'origin === undefined ||',
    tests: networkAccess,
  },
  {
    rule: 'a key is refused from addresses that it does not name',
    file: 'plugins/network-access.ts',
    text: '!getOrCreate(addressSets, ips, newAddressSet).has(ip)',
    broken: 'false',
    tests: networkAccess,
  },
  // Secrets and addresses.
  {
    rule: 'secrets that a node quotes in `data` of an error are redacted',
    file: 'src/services/upstream-client/secret-redactor.ts',
    text: 'data: this.#redactJson(data)',
    broken: 'data',
    tests: ['test/services/upstream-client/upstream-client.test.ts', 'test/plugins/upstream/node-errors.test.ts'],
  },
  {
    rule: 'no webhook is sent to private IPv4 addresses',
    file: 'src/portal/alerts/webhook-addresses.ts',
    text: '!specialIpv4.has(address)',
    broken: 'true',
    tests: ['test/portal/alerts.test.ts'],
  },
  {
    rule: 'no webhook is sent to IPv6 addresses of special use',
    file: 'src/portal/alerts/webhook-addresses.ts',
    text: '!specialIpv6.has(address)',
    broken: 'true',
    tests: ['test/portal/alerts.test.ts'],
  },
  {
    rule: 'only trusted proxies say where a request comes from',
    file: 'src/server/client-address.ts',
    text: '!trusted.has(peer)',
    broken: 'false',
    tests: ['test/server/client-address.test.ts'],
  },
  {
    rule: 'too many wrong admin tokens from one network are refused',
    file: 'src/server/admin-token.ts',
    text: 'if (retryAfter !== undefined)',
    broken: 'if (false)',
    tests: ['test/server/admin.test.ts'],
  },
  // HTTP client.
  {
    rule: 'a connection with bytes behind a response is not used again',
    file: 'src/services/upstream-client/http1/connection.ts',
    text: 'hasSurplus ||',
    broken: '',
    tests: httpClient,
  },
  {
    rule: 'a connection whose request was not sent in full is not used again',
    file: 'src/services/upstream-client/http1/connection.ts',
    text: '|| hasUnsentBytes',
    broken: '',
    tests: httpClient,
  },
  {
    rule: 'an idle connection is closed before the node would close it',
    file: 'src/services/upstream-client/http1/connection.ts',
    text: 'reader.keepAliveMs - keepAliveMarginMs',
    broken: 'reader.keepAliveMs',
    tests: httpClient,
  },
  {
    rule: 'a response with Transfer-Encoding and Content-Length is invalid',
    file: 'src/services/upstream-client/http1/response-reader.ts',
    text: 'length !== undefined ||',
    broken: '',
    tests: httpClient,
  },
  {
    rule: 'a head of a response is bounded',
    file: 'src/services/upstream-client/http1/response-reader.ts',
    text: 'headBytes > maxHeadBytes',
    broken: 'false',
    tests: httpClient,
  },
  // Failover.
  {
    rule: 'no node is suspect before 100 of its calls have been answered',
    file: 'plugins/failover/late-calls.ts',
    text: 'quantiles === undefined || !isKnown(this.latency)',
    broken: 'quantiles === undefined',
    tests: [failover('late-calls')],
  },
  {
    rule: 'retries are bounded by a budget',
    file: 'plugins/failover/retries.ts',
    text: '+ 1 <= maxRetries',
    broken: '+ 1 <= Infinity',
    tests: [failover('retries'), failover('failover')],
  },
  {
    rule: 'hedged requests are bounded by a budget',
    file: 'plugins/failover/retries.ts',
    text: 'return isWithinRatio || isWithinBurst',
    broken: 'return true',
    tests: [failover('hedging'), failover('retries')],
  },
  {
    rule: 'the slower of two hedged requests is canceled',
    file: 'plugins/failover/hedging.ts',
    text: 'this.#attemptsInFlight > 0',
    broken: 'false',
    tests: [failover('hedging')],
  },
  {
    rule: 'a node is requested once for one call',
    file: 'plugins/failover/call-failover.ts',
    text: '!this.#triedNodes.includes(node)',
    broken: 'true',
    tests: [failover('failover'), failover('retries')],
  },
  {
    rule: 'a node that lacks the required block is not requested',
    file: 'plugins/failover/call-failover.ts',
    text: 'requiredBlock === undefined || heads.hasBlock(name, requiredBlock.number)',
    broken: 'true',
    tests: [failover('required-block'), failover('failover')],
  },
  {
    rule: 'a retry that succeeds leaves its place in the budget to others',
    file: 'plugins/failover/retries.ts',
    text: 'if (failed)',
    broken: 'if (true)',
    tests: [failover('retries'), failover('failover')],
  },
  {
    rule: 'a call that a busy node refuses is no outage for the partner',
    file: 'plugins/failover/retries.ts',
    text: '&& !this.#isAtConcurrencyLimit',
    broken: '',
    tests: [failover('failover'), failover('retries'), failover('partner'), failover('deprioritizer')],
  },
  {
    rule: 'the partner is requested in outages only',
    file: 'plugins/failover/call-failover.ts',
    text: '!this.#rejected.isOutage ||',
    broken: '',
    tests: [failover('failover'), failover('partner'), failover('deprioritizer')],
  },
  {
    rule: 'a call that may not be repeated is not sent to another node',
    file: 'plugins/failover/call-failover.ts',
    text: 'if (!this.#mayRetry) return undefined',
    broken: 'if (false) return undefined',
    tests: [failover('retries'), failover('failover')],
  },
  // Cache.
  {
    rule: 'an answer about the newest block ends with the next head',
    file: 'plugins/cache/memory-cache.ts',
    text: 'headVersion === snapshot.headVersion &&',
    broken: '',
    tests: cache,
  },
  {
    rule: 'a final answer ends when finality is taken back',
    file: 'plugins/cache/memory-cache.ts',
    text: 'finalityVersion !== snapshot.finalityVersion',
    broken: 'false',
    tests: cache,
  },
  {
    rule: 'an answer of a node that is behind the head is not cached',
    file: 'plugins/cache/finality-and-ttl.ts',
    text: '!snapshot.isCurrent(reply.upstream)',
    broken: 'false',
    tests: cache,
  },
  {
    rule: 'no call joins one that began before the head moved',
    file: 'plugins/cache/calls-in-flight.ts',
    text: 'began.headVersion === headVersion',
    broken: 'true',
    tests: cache,
  },
  {
    rule: 'no call joins one that began before a transaction was sent',
    file: 'plugins/cache/calls-in-flight.ts',
    text: 'began.transactionVersion === transactionVersion',
    broken: 'true',
    tests: cache,
  },
  {
    rule: 'a shared answer has no more results than this machine allows',
    file: 'plugins/cache/second-level-cache.ts',
    text: '(found.count ?? 0) <= maxResults &&',
    broken: '',
    tests: cache,
  },
  {
    rule: 'a reorg of finalized blocks has shared answers verified anew',
    file: 'plugins/cache/second-level-cache.ts',
    text: 'this.#finalityChecks.clear()',
    broken: 'void 0',
    tests: cache,
  },
  {
    rule: 'only answers of own nodes are shared',
    file: 'plugins/cache/second-level-cache.ts',
    text: "source !== 'node' || upstream === undefined ||",
    broken: '',
    tests: cache,
  },
  {
    rule: 'a block that is not finalized here is verified again soon',
    file: 'plugins/cache/second-level-cache.ts',
    text: 'if (!isFinal)',
    broken: 'if (false)',
    tests: cache,
  },
  {
    rule: 'a result that is not of its method is not cached',
    file: 'plugins/cache/finality-and-ttl.ts',
    text: 'unexpectedType === true ||',
    broken: '',
    tests: cache,
  },
  {
    rule: 'a transaction without a block is not cached',
    file: 'plugins/cache/finality-and-ttl.ts',
    text: "policy !== 'mined' || minedBlockOf(result) !== undefined",
    broken: 'true',
    tests: cache,
  },
  {
    rule: 'a request about a range is final when its later end is',
    file: 'plugins/cache/finality-and-ttl.ts',
    text: 'Math.max(from, to)',
    broken: 'Math.min(from, to)',
    tests: cache,
  },
  // Chain heads.
  {
    rule: 'a head is implausible when more upstreams contradict than support it',
    file: 'src/services/chain-heads/head-plausibility.ts',
    text: 'contradictions > support',
    broken: 'false',
    tests: heads,
  },
  {
    rule: 'the reported height goes back only when all upstreams agree',
    file: 'src/services/chain-heads/reported-height.ts',
    text: 'votes.every(',
    broken: 'votes.some(',
    tests: ['test/services/chain-heads/reported-height.test.ts', ...heads],
  },
  {
    rule: 'no finalized block above the reported height is reported',
    file: 'src/services/chain-heads/reported-tags.ts',
    text: 'block > reportedHeight() ||',
    broken: '',
    tests: ['test/services/chain-heads/reported-tags.test.ts'],
  },
  {
    rule: 'a finalized block that most upstreams contradict is not reported',
    file: 'src/services/chain-heads/reported-tags.ts',
    text: 'contradictions > others.length - contradictions',
    broken: 'false',
    tests: ['test/services/chain-heads/reported-tags.test.ts'],
  },
  {
    rule: 'the reported height goes back only after several low polls',
    file: 'src/services/chain-heads/reported-height.ts',
    text: 'lowPolls >= minLowPolls',
    broken: 'lowPolls > 0',
    tests: ['test/services/chain-heads/reported-height.test.ts', ...heads],
  },
  {
    rule: 'a height that another gateway reported lately is a vote',
    file: 'src/services/chain-heads/reported-height.ts',
    text: 'clock.monotonic() - this.#peerHeight.receivedAt >= peerHeightTtlMs',
    broken: 'true',
    tests: ['test/services/chain-heads/height-broadcast.test.ts', 'test/services/chain-heads/reported-height.test.ts', ...heads],
  },
  {
    rule: 'an upstream that is silent has no vote on the height',
    file: 'src/services/chain-heads/reported-height.ts',
    text: '!vote.isSilent',
    broken: 'true',
    tests: ['test/services/chain-heads/reported-height.test.ts', ...heads],
  },
  // Logs, filters and subscriptions.
  {
    rule: 'logs outside the requested blocks and addresses are no answer',
    file: 'plugins/upstream/check-result.ts',
    text: 'await results.everyObjectHas(result.result, result.count, members, search)',
    broken: 'true',
    tests: upstream,
  },
  {
    rule: 'a storage value of more than 32 bytes is no answer',
    file: 'plugins/upstream/check-result.ts',
    text: '{0,64}"$/.test',
    broken: '*"$/.test',
    tests: upstream,
  },
  {
    rule: 'a query above the newest block is not sent in chunks',
    file: 'plugins/upstream/split-logs/split-filter.ts',
    text: 'from > lastBlock.number',
    broken: 'false',
    tests: splitLogs,
  },
  {
    rule: 'a filter has the logs of its topics only',
    file: 'plugins/subscriptions/log-filter.ts',
    text: 'minTopics: topics.length',
    broken: 'minTopics: 0',
    tests: ['test/plugins/subscriptions/block-logs.test.ts', ...subscriptions, ...filters],
  },
  {
    rule: 'logs are taken back from those who got them',
    file: 'plugins/subscriptions/publishers.ts',
    text: 'receivers?.has(receiver) === true',
    broken: 'true',
    tests: ['test/plugins/subscriptions/event-delivery.test.ts'],
  },
  {
    rule: 'missed changes are those of one branch',
    file: 'plugins/subscriptions/missed-changes.ts',
    text: 'confirmed.hash === head.hash',
    broken: 'true',
    tests: filters,
  },
  {
    rule: 'changes that were not delivered come again',
    file: 'plugins/subscriptions/filter.ts',
    text: 'isDelivered ? this.#recordDelivery(taken) : this.#putBack(taken)',
    broken: 'this.#recordDelivery(taken)',
    tests: filters,
  },
  {
    rule: 'events of one key do not wait for those of another',
    file: 'plugins/subscriptions/event-delivery.ts',
    text: 'await subscription.turn(part.length)',
    broken: 'void 0',
    tests: ['test/plugins/subscriptions/event-delivery.test.ts'],
  },
  {
    rule: 'a filter that has missed too many blocks is refused',
    file: 'plugins/subscriptions/missed-changes.ts',
    text: 'head.number - base.number > maxNewBlocks',
    broken: 'false',
    tests: filters,
  },
  // Portal.
  {
    rule: 'a sign-in link ends with the address that it was mailed to',
    file: 'src/portal/one-time-links.ts',
    text: "person?.email === value['mailedTo'] ? person : undefined",
    broken: 'person',
    tests: portal,
  },
  // Memory, bodies and WebSockets.
  {
    rule: 'the length of a WebSocket frame counts in the memory of its account',
    file: 'src/server/ws-frames.ts',
    text: 'this.#fragmentCount * fragmentOverheadBytes',
    broken: '0',
    tests: webSocket,
  },
  {
    rule: 'nobody takes more memory than is free for all others',
    file: 'src/services/memory-budget.ts',
    text: 'this.#heldBytes >= freeBytes &&',
    broken: 'false &&',
    tests: ['test/services/memory-budget.test.ts'],
  },
  {
    rule: 'one caller takes at most half of the share of its account',
    file: 'src/services/memory-budget.ts',
    text: '2 * this.#heldBytes >= this.#budget.freeBytes',
    broken: 'false',
    tests: ['test/services/memory-budget.test.ts'],
  },
  {
    rule: 'the calls of a batch leave room for their responses',
    file: 'src/services/memory-budget.ts',
    text: '4 * this.#heldBytes < this.#budget.freeBytes &&',
    broken: '',
    tests: ['test/services/memory-budget.test.ts'],
  },
  // Reload and configuration.
  {
    rule: 'workers that read other files than the primary do not commit',
    file: 'src/cluster/shared-reload.ts',
    text: 'configId(config) !== expectedId',
    broken: 'false',
    tests: ['test/cluster/shared-reload.test.ts'],
  },
  {
    rule: 'no worker commits when one has a problem',
    file: 'src/cluster/shared-reload.ts',
    text: "reply !== 'late' && reply.problems.length === 0 &&",
    broken: '',
    tests: ['test/cluster/shared-reload.test.ts'],
  },
]

/** How often the source file has the text; 0 where there is no such file. */
export const countText = ({ file, text }: Mutant, root = rootDir): number => {
  try {
    return readFileSync(join(root, file), 'utf8').split(text).length - 1
  } catch {
    return 0
  }
}
