import type { Mistake } from './mistake.ts'

export const upstreamMistakes: readonly Mistake[] = [
  {
    mistake: 'a port of a URL that is too big',
    network: [['http://127.0.0.1:1/own', 'http://127.0.0.1:85450/own']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> the port of the URL is greater than 65535',
    ],
  },
  {
    mistake: 'a URL with a space',
    network: [['http://127.0.0.1:1/own', 'http://127.0.0.1:1/ own']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> the URL contains a space',
    ],
  },
  {
    mistake: 'a URL with a placeholder',
    network: [['http://127.0.0.1:1/own', 'https://node.example.org/v2/<YOUR-KEY>']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> the URL still has a placeholder in < > or { }: replace it, for example with ${NODE_KEY}',
    ],
  },
  {
    mistake: 'a URL with the scheme ftp',
    network: [['"http://127.0.0.1:1/own"', '"ftp://node.example.org/own"']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> for example https://node.example.com/v1/${NODE_KEY}',
    ],
  },
  {
    mistake: 'a URL with a misspelled scheme',
    network: [['"http://127.0.0.1:1/own"', '"htp://node.example.org/own"']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> for example https://node.example.com/v1/${NODE_KEY}',
    ],
  },
  {
    mistake: 'a URL without scheme',
    network: [['"http://127.0.0.1:1/own"', '"node.example.org/own"']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> for example https://node.example.com/v1/${NODE_KEY}',
    ],
  },
  {
    mistake: 'ws with the scheme http',
    network: [['/own" }', '/own", ws: "http://node.example.org" }']],
    answers: [
      'networks/arb.yaml:16:59: failover.upstreams[0].ws must be a URL that begins with ws:// or wss:// -> for example wss://node.example.com',
    ],
  },
  {
    mistake: 'the name of an upstream twice',
    network: [['name: second', 'name: own']],
    answers: ['networks/arb.yaml:17:19: failover: duplicate upstream name "own"'],
  },
  {
    mistake: 'the name of an upstream twice, below one that is omitted',
    network: [
      ['methods: ethereum', 'methods: ethereum\noptional: true'],
      ['/own" }', '/own" }\n        - { name: absent, url: "${ARB_MAINNET_URL}" }'],
      ['name: second', 'name: own'],
    ],
    answers: ['networks/arb.yaml:19:19: failover: duplicate upstream name "own"'],
  },
  {
    mistake: 'the URL of an upstream twice',
    network: [['1/second', '1/own']],
    answers: ['networks/arb.yaml:17:32: failover: the same URL as in line 16'],
  },
  {
    mistake: 'the name of an upstream with a space',
    network: [['name: second', 'name: my second']],
    answers: [
      'networks/arb.yaml:17:19: failover.upstreams[1].name must be a name of ASCII characters without spaces, not "my second" -> for example node-1',
    ],
  },
  {
    mistake: 'a negative weight',
    network: [['name: own', 'name: own, weight: -3']],
    answers: [
      'networks/arb.yaml:16:32: failover.upstreams[0].weight must be a number, at least 0, not -3',
      'networks/arb.yaml:17:11: failover.upstreams[1] has no `weight`, but another item has: its weight is 1 -> add `weight`',
    ],
  },
  {
    mistake: 'a weight on one upstream only',
    network: [['name: own', 'name: own, weight: 3']],
    answers: ['networks/arb.yaml:17:11: failover.upstreams[1] has no `weight`, but another item has: its weight is 1 -> add `weight`'],
  },
  {
    mistake: 'a variable that is not set',
    network: [['"http://127.0.0.1:1/own"', '"${NOT_SET_URL}"']],
    answers: [
      'networks/arb.yaml:16:29: the environment variable NOT_SET_URL is not set -> export NOT_SET_URL=…, or write ${NOT_SET_URL:-default}',
    ],
  },
  {
    mistake: 'a variable with a message that is not set',
    network: [['"http://127.0.0.1:1/own"', '"${NOT_SET_URL:?the url of the own node}"']],
    answers: ['networks/arb.yaml:16:29: the environment variable NOT_SET_URL is not set: the url of the own node -> export NOT_SET_URL=…'],
  },
  {
    mistake: 'a variable without an end',
    network: [['"http://127.0.0.1:1/own"', '"${NOT_SET_URL"']],
    answers: [
      'networks/arb.yaml:16:29: malformed variable ${NOT_SET_URL: it must be ${NAME}, ${NAME:-default} or ${NAME:?message} -> write $$ for a dollar sign',
    ],
  },
  {
    mistake: 'upstreams by name',
    network: [
      ['        - { name: own, url: "http://127.0.0.1:1/own" }\n', '        own: http://127.0.0.1:1/own\n'],
      ['        - { name: second, url: "http://127.0.0.1:1/second" }\n', ''],
    ],
    answers: [
      'networks/arb.yaml:15:7: failover.upstreams must be a list of at least 1 item, not a map -> write a list: each item begins with a dash and a space',
    ],
  },
  {
    mistake: 'an upstream that is only a URL',
    network: [['{ name: second, url: "http://127.0.0.1:1/second" }', 'http://127.0.0.1:1/second']],
    answers: ['networks/arb.yaml:17:11: failover.upstreams[1] must be a map, not "http://127.0.0.1:1/******" -> write { name: …, url: … }'],
  },
  {
    mistake: 'a variable as in a shell',
    network: [['"http://127.0.0.1:1/own"', '$ARB_URL']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> did you mean `${ARB_URL}`?',
    ],
  },
  {
    mistake: 'headers as a list',
    network: [['/own" }', '/own", headers: [Authorization] }']],
    answers: ['networks/arb.yaml:16:64: failover.upstreams[0].headers must be a map -> write entries as `NAME: VALUE`, without dashes'],
  },
  {
    mistake: 'weights in percent',
    network: [
      ['/own" }', '/own", weight: 75% }'],
      ['/second" }', '/second", weight: 25 }'],
    ],
    answers: ['networks/arb.yaml:16:63: failover.upstreams[0].weight must be a number, at least 0, not "75%" -> write 75'],
  },
  {
    mistake: 'an option of the breaker beside it',
    network: [['      upstreams:', '      openFor: 30s\n      upstreams:']],
    answers: ['networks/arb.yaml:15:7: unknown option `openFor` of failover -> `openFor` belongs in `failover.breaker`'],
  },
  {
    mistake: 'a variable whose value has quotes',
    network: [['"http://127.0.0.1:1/own"', '"${OWN_URL}"']],
    env: { OWN_URL: '"http://127.0.0.1:1"' },
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> the value of ${OWN_URL} has quotes or spaces around it',
    ],
  },
  {
    mistake: 'curly quotes',
    network: [['"http://127.0.0.1:1/own"', '\u201chttp://127.0.0.1:1/own\u201d']],
    answers: [
      'networks/arb.yaml:16:29: failover.upstreams[0].url must be a URL that begins with http://, https://, ws:// or wss:// -> quotes must be straight ("), not U+201C',
    ],
  },
]
