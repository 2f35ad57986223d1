import type { Mistake } from './mistake.ts'

export const networkMistakes: readonly Mistake[] = [
  {
    mistake: 'a typo beside a variable of an optional network',
    network: [
      ['methods: ethereum', 'methods: ethereum\noptional: true'],
      ['{ name: second, url: "http://127.0.0.1:1/second" }', '{ name: second, urll: "${ARB_MAINNET_URL}" }'],
    ],
    answers: ['networks/arb.yaml:18:27: unknown option `urll` of failover.upstreams[1] -> did you mean `url`?'],
  },
  {
    mistake: 'upstreams of an optional network that are not indented',
    network: [
      ['methods: ethereum', 'methods: ethereum\noptional: true'],
      ['      upstreams:', '    upstreams:'],
      ['"http://127.0.0.1:1/second"', '"${ARB_MAINNET_URL}"'],
    ],
    answers: [
      'networks/arb.yaml:15:5: failover requires `upstreams`: a list of at least 1 item -> Own nodes, in order of preference; with weights, the nodes share the calls.',
      "networks/arb.yaml:16:5: a step must have one key, the plugin's name, not both `failover` and `upstreams` -> indent `upstreams` more if it is an option of failover",
    ],
  },
  {
    mistake: 'an unknown section of an optional network',
    network: [['methods: ethereum', 'methods: ethereum\noptional: true\npartner: { url: "${ARB_MAINNET_URL}" }']],
    answers: [
      'networks/arb.yaml:6:1: unknown key `partner` -> known keys: network, chainId, blockTime, devNode, methods, optional, hosts, pipeline',
    ],
  },
  {
    mistake: 'typo in a top key',
    network: [['chainId', 'chainID']],
    answers: ['networks/arb.yaml:2:1: unknown key `chainID` -> did you mean `chainId`?'],
  },
  {
    mistake: 'another typo in a top key',
    network: [['pipeline:', 'pipline:']],
    answers: ['networks/arb.yaml:7:1: unknown key `pipline` -> did you mean `pipeline`?'],
  },
  {
    mistake: 'a typo in the name of a plugin',
    network: [['key-auth', 'keyauth']],
    answers: ['networks/arb.yaml:9:5: unknown plugin `keyauth` -> did you mean `key-auth`?'],
  },
  {
    mistake: 'another typo in the name of a plugin',
    network: [['failover', 'falover']],
    answers: ['networks/arb.yaml:14:5: unknown plugin `falover` -> did you mean `failover`?'],
  },
  {
    mistake: 'a typo in an option',
    network: [['maxBytes', 'maxByte']],
    answers: ['networks/arb.yaml:13:14: unknown option `maxByte` of cache -> did you mean `maxBytes`?'],
  },
  {
    mistake: 'a typo in a nested key',
    network: [['own, url', 'own, urll']],
    answers: ['networks/arb.yaml:16:24: unknown option `urll` of failover.upstreams[0] -> did you mean `url`?'],
  },
  {
    mistake: 'a typo in an enumerated value',
    network: [['credits: {}', 'credits: { onStoreOutage: close }']],
    answers: ['networks/arb.yaml:11:31: credits.onStoreOutage must be one of closed, grace, open, not "close" -> did you mean `closed`?'],
  },
  {
    mistake: 'a hexadecimal chainId in quotes',
    network: [['42161', '"0xa4b1"']],
    answers: ['networks/arb.yaml:2:10: chainId must be an integer from 1 to 2^53-1, not "0xa4b1" -> write 42161'],
  },
  { mistake: 'a hexadecimal chainId is YAML 1.2', network: [['42161', '0xa4b1']], answers: [] },
  {
    mistake: 'hosts as one string',
    network: [['[arb.rpc.test]', 'arb.rpc.test']],
    answers: ['networks/arb.yaml:5:8: hosts must be a list of at least 1 item, not "arb.rpc.test" -> write [arb.rpc.test]'],
  },
  {
    mistake: 'a duration without unit',
    network: [['timeout: 10s', 'timeout: 10']],
    answers: ['networks/arb.yaml:18:26: upstream.timeout must be a duration such as 250ms, 10s or 5m, not 10 -> the unit is missing'],
  },
  {
    mistake: 'a size without unit',
    network: [['64MiB', '64000000']],
    answers: ['networks/arb.yaml:13:24: cache.maxBytes must be a size such as 64KiB, 512MiB or 2GiB, not 64000000 -> the unit is missing'],
  },
  {
    mistake: 'a size with a decimal unit',
    network: [['64MiB', '64M']],
    answers: ['networks/arb.yaml:13:24: cache.maxBytes must be a size such as 64KiB, 512MiB or 2GiB, not "64M" -> did you mean `64MiB`?'],
  },
  {
    mistake: 'a duration with a long unit',
    network: [['250ms', '1 sec']],
    answers: ['networks/arb.yaml:3:12: blockTime must be a duration such as 250ms, 10s or 5m, not "1 sec" -> did you mean `1s`?'],
  },
  {
    mistake: 'a negative chainId',
    network: [['42161', '-1']],
    answers: ['networks/arb.yaml:2:10: chainId must be an integer from 1 to 2^53-1, not -1'],
  },
  {
    mistake: 'an overlong host',
    network: [['arb.rpc.test', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test']],
    answers: [
      'networks/arb.yaml:5:9: hosts[0] must be a host name or an IP address, without port, not "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…" -> each part of a host name has at most 63 characters',
    ],
  },
  {
    mistake: 'a host with a scheme',
    network: [['[arb.rpc.test]', '["https://arb.rpc.test"]']],
    answers: [
      'networks/arb.yaml:5:9: hosts[0] must be a host name or an IP address, without port, not "https://arb.rpc.test" -> did you mean `arb.rpc.test`?',
    ],
  },
  {
    mistake: 'a host with a port',
    network: [['[arb.rpc.test]', '["arb.rpc.test:8080"]']],
    answers: [
      'networks/arb.yaml:5:9: hosts[0] must be a host name or an IP address, without port, not "arb.rpc.test:8080" -> did you mean `arb.rpc.test`?',
    ],
  },
  {
    mistake: 'a host with a wildcard',
    network: [['[arb.rpc.test]', '["*.rpc.test"]']],
    answers: [
      'networks/arb.yaml:5:9: hosts[0] must be a host name or an IP address, without port, not "*.rpc.test" -> wildcards are not supported: list each host',
    ],
  },
  {
    mistake: 'a host twice in a list',
    network: [['[arb.rpc.test]', '[arb.rpc.test, ARB.rpc.test]']],
    answers: ['networks/arb.yaml:5:23: duplicate host "ARB.rpc.test": already listed at networks/arb.yaml:5:9'],
  },
  {
    mistake: 'a timeout of days',
    network: [['timeout: 10s', 'timeout: 400d']],
    answers: ['networks/arb.yaml:18:26: upstream.timeout is usually 100ms to 30m, not "400d" -> Maximum time to wait for a response.'],
  },
  {
    mistake: 'a timeout of 0',
    network: [['timeout: 10s', 'timeout: 0s']],
    answers: ['networks/arb.yaml:18:26: upstream.timeout must be greater than 0, not "0s"'],
  },
  {
    mistake: 'a method table that does not exist',
    network: [['methods: ethereum', 'methods: etherium']],
    answers: ['networks/arb.yaml:4:10: methods must name a file in methods, not "etherium" -> did you mean `ethereum`?'],
  },
  {
    mistake: 'the name of the network is not that of the file',
    network: [['network: arb\n', 'network: arbitrum\n']],
    answers: ['networks/arb.yaml:1:10: network is "arbitrum", but the file is named arb.yaml -> write `network: arb`, or rename the file'],
  },
  {
    mistake: 'a block time with a fraction',
    network: [['250ms', '0.25s']],
    answers: ['networks/arb.yaml:3:12: blockTime must be a duration such as 250ms, 10s or 5m, not "0.25s" -> did you mean `250ms`?'],
  },
  {
    mistake: 'a boolean in quotes',
    network: [['methods: ethereum', 'methods: ethereum\noptional: "true"']],
    answers: ['networks/arb.yaml:5:11: optional must be true or false, not "true" -> did you mean `true`?'],
  },
  {
    mistake: 'a letter of another alphabet in a key',
    network: [['pipeline:', 'pip\u0435line:']],
    answers: ['networks/arb.yaml:7:1: unknown key `pip\u0435line` -> did you mean `pipeline`? (the key contains the character U+0435)'],
  },
]
