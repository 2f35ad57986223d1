import type { Mistake } from './mistake.ts'

export const pipelineMistakes: readonly Mistake[] = [
  {
    mistake: 'cache above credits',
    network: [
      [
        '  - credits: {}\n  - params: {}\n  - cache: { maxBytes: 64MiB }\n',
        '  - params: {}\n  - cache: { maxBytes: 64MiB }\n  - credits: {}\n',
      ],
    ],
    answers: [
      'networks/arb.yaml:13:5: credits reads `key` and has no vary(): cache above it would share answers between callers -> move credits above cache',
    ],
  },
  {
    mistake: 'credits above key-auth',
    network: [
      ['  - key-auth: {}\n  - network-access: {}\n  - credits: {}\n', '  - credits: {}\n  - key-auth: {}\n  - network-access: {}\n'],
    ],
    answers: [
      'networks/arb.yaml:9:5: credits reads `key` and `account`, which no earlier plugin writes -> move key-auth, which writes them, above credits',
    ],
  },
  {
    mistake: 'envelope below key-auth',
    network: [['  - envelope: {}\n  - key-auth: {}\n', '  - key-auth: {}\n  - envelope: {}\n']],
    answers: [],
  },
  {
    mistake: 'no upstream',
    network: [['  - upstream: { timeout: 10s }\n', '']],
    answers: ['networks/arb.yaml:14:5: the last plugin must be terminal, but failover passes calls on -> end with upstream'],
  },
  {
    mistake: 'no key-auth',
    network: [['  - key-auth: {}\n', '']],
    answers: [
      'networks/arb.yaml:9:5: network-access and credits read `key` and `account`, which no earlier plugin writes -> add key-auth, which writes them, above network-access',
    ],
  },
  {
    mistake: 'no envelope',
    network: [['  - envelope: {}\n', '']],
    answers: [
      'networks/arb.yaml:9:5: network-access, credits and params read `request`, which no earlier plugin writes -> add envelope, which writes it, above network-access',
    ],
  },
  {
    mistake: 'no params',
    network: [['  - params: {}\n', '']],
    answers: [
      'networks/arb.yaml:7:1: the pipeline has no `params`: callers may use every method of the node, those that administer it included',
    ],
  },
  {
    mistake: 'no credits',
    network: [['  - credits: {}\n', '']],
    answers: ['networks/arb.yaml:7:1: the pipeline has no `credits`: callers may make any number of calls, free of charge'],
  },
  {
    mistake: 'no failover',
    network: [
      [
        '  - failover:\n      upstreams:\n        - { name: own, url: "http://127.0.0.1:1/own" }\n        - { name: second, url: "http://127.0.0.1:1/second" }\n',
        '',
      ],
    ],
    answers: [
      'networks/arb.yaml:14:5: upstream reads `target`, which no earlier plugin writes -> add failover, which writes it, above upstream',
      'networks/arb.yaml:13:5: cache requires the heads of nodes, which no plugin of the pipeline tracks: results outlive new blocks by up to one poll interval, and none is cached for longer, however old its block -> use failover, or a plugin with `tracksHeads: true` that calls services.heads.track()',
    ],
  },
  {
    mistake: 'a plugin twice',
    network: [['  - params: {}\n', '  - credits: {}\n  - params: {}\n']],
    answers: [
      'networks/arb.yaml:12:5: duplicate step credits: one of the two requires its own name -> write { use: credits, name: …, with: { options } }',
    ],
  },
  {
    mistake: 'a method that the table does not have',
    network: [['credits: {}', 'credits: { costs: { eth_cal: 40 } }']],
    answers: ['networks/arb.yaml:11:34: credits: the method eth_cal is not in the method table; did you mean `eth_call`?'],
  },
  {
    mistake: 'a negative cost',
    network: [['credits: {}', 'credits: { costs: { eth_call: -40 } }']],
    answers: ['networks/arb.yaml:11:35: credits.costs.eth_call must be an integer, at least 0, not -40'],
  },
  {
    mistake: 'a cost as text',
    network: [['credits: {}', 'credits: { costs: { eth_call: cheap } }']],
    answers: ['networks/arb.yaml:11:35: credits.costs.eth_call must be an integer, at least 0, not "cheap"'],
  },
  {
    mistake: 'the options of a plugin as a list',
    network: [['credits: {}', 'credits: [{ eth_call: 1 }]']],
    answers: ['networks/arb.yaml:11:14: credits must be a map, not a list of 1 -> known keys: costs, onStoreOutage, grace'],
  },
  { mistake: 'a plugin without options and without braces', network: [['credits: {}', 'credits:']], answers: [] },
  {
    mistake: 'a plugin as a bare string',
    network: [['key-auth: {}', 'key-auth']],
    answers: ['networks/arb.yaml:9:5: a step must be a map with one key, the plugin\'s name, not "key-auth" -> write `- key-auth: {}`'],
  },
  {
    mistake: 'two plugins in one item',
    network: [['  - network-access', '    network-access']],
    answers: [
      "networks/arb.yaml:10:5: a step must have one key, the plugin's name, not both `key-auth` and `network-access` -> indent `network-access` more if it is an option of key-auth",
    ],
  },
  {
    mistake: 'an option of another plugin',
    network: [['upstream: { timeout: 10s }', 'upstream: { timeout: 10s, maxLag: 5 }']],
    answers: ['networks/arb.yaml:18:31: unknown option `maxLag` of upstream -> `maxLag` is an option of `failover`'],
  },
  {
    mistake: 'an option of two other plugins',
    network: [['credits: {}', 'credits: { maxBytes: 64MiB }']],
    answers: [
      'networks/arb.yaml:11:16: unknown option `maxBytes` of credits -> `maxBytes` is an option of `cache` and `verify` and `upstream`',
    ],
  },
  {
    mistake: 'a time without end',
    network: [['10s', '.inf']],
    answers: ['networks/arb.yaml:18:26: upstream.timeout must be a duration such as 250ms, 10s or 5m, not Infinity'],
  },
]
