import { absentFile } from '../config-fixture.ts'
import { edit, networkText } from './mistake.ts'
import type { Mistake } from './mistake.ts'

export const fileMistakes: readonly Mistake[] = [
  {
    mistake: 'a tab as indentation',
    network: [['  - key-auth', '\t- key-auth']],
    answers: ['networks/arb.yaml:9:1: indentation must be spaces, not tabs'],
  },
  { mistake: 'a quote that is not closed', network: [['/own" }', '/own }']], answers: ['networks/arb.yaml:16:54: a closing " is missing'] },
  {
    mistake: 'a quote that is not closed, above lines without another quote',
    network: [['params: {}', "params: { offer: ['debug_*] }"]],
    answers: ["networks/arb.yaml:12:23: this ' has no closing '"],
  },
  {
    mistake: 'a brace that is closed twice',
    network: [['maxBytes: 64MiB }', 'maxBytes: 64MiB }}']],
    answers: ['networks/arb.yaml:13:31: this } has no opening {'],
  },
  {
    mistake: 'a brace that is not opened',
    network: [['envelope: {}', 'envelope: }']],
    answers: ['networks/arb.yaml:8:15: this } has no opening {'],
  },
  {
    mistake: 'a first line that is indented',
    network: [['network: arb', '# Arbitrum\n network: arb']],
    answers: [
      'networks/arb.yaml:2:2: this line is indented, but line 3 is not indented as much -> remove the spaces before it, or write the key to which it belongs above it',
    ],
  },
  {
    mistake: 'a brace that is not closed',
    network: [['/own" }', '/own"']],
    answers: ['networks/arb.yaml:17:9: a closing } is missing, or a line before it is not indented'],
  },
  {
    mistake: 'a key twice',
    network: [['blockTime: 250ms\n', 'blockTime: 250ms\nblockTime: 250ms\n']],
    answers: ['networks/arb.yaml:4:1: duplicate key'],
  },
  {
    mistake: 'an alias of a whole step',
    network: [['  - upstream: { timeout: 10s }\n', '  - &ask\n    upstream: { timeout: 10s }\n  - *ask\n']],
    answers: [
      'networks/arb.yaml:19:5: duplicate step upstream: one of the two requires its own name -> write { use: upstream, name: …, with: { options } }',
      'networks/arb.yaml:19:5: upstream is never reached: upstream answers every call',
    ],
  },
  {
    mistake: 'an alias of hosts',
    network: [
      ['[arb.rpc.test]', '[&host arb.rpc.test]'],
      ['credits: {}', 'credits: { costs: {} }'],
    ],
    answers: [],
  },
  {
    mistake: 'a merge key',
    network: [
      [
        '        - { name: own, url: "http://127.0.0.1:1/own" }',
        '        - &own { name: own, url: "http://127.0.0.1:1/own", concurrency: 8 }',
      ],
      ['- { name: second,', '- { <<: *own, name: second,'],
    ],
    answers: [],
  },
  {
    mistake: 'a section for anchors',
    network: [
      ['network: arb\n', 'x-common:\n  cost: &cost { eth_call: 40 }\nnetwork: arb\n'],
      ['credits: {}', 'credits: { costs: *cost }'],
    ],
    answers: [],
  },
  {
    mistake: 'an empty file',
    files: { 'networks/arb.yaml': '' },
    answers: ['networks/arb.yaml:1:1: the file is empty -> copy another network and edit it, or delete the file'],
  },
  {
    mistake: 'a file of comments',
    files: { 'networks/arb.yaml': '# nothing here yet\n\n' },
    answers: ['networks/arb.yaml:1:1: the file is empty -> copy another network and edit it, or delete the file'],
  },
  { mistake: 'a byte order mark', network: [['network: arb', '\ufeffnetwork: arb']], answers: [] },
  { mistake: 'line ends of Windows', lineEnd: '\r\n', answers: [] },
  {
    mistake: 'a line end of old Macintosh computers',
    network: [['network: arb\n', 'network: arb\r']],
    answers: [
      'networks/arb.yaml:1:13: this line ends with CR alone; lines must end with LF or CR LF -> save the file with the line ends of Unix or of Windows',
    ],
  },
  {
    mistake: 'a second line that is indented',
    network: [['chainId:', ' chainId:']],
    answers: ['networks/arb.yaml:2:2: the indentation of this line differs from that of the other entries of its map or list'],
  },
  {
    mistake: 'two keys in one line',
    network: [['network: arb\nchainId:', 'network: arb chainId:']],
    answers: ['networks/arb.yaml:1:10: a map or list cannot begin here: indent it, or quote a string that contains a colon'],
  },
  {
    mistake: 'line ends of Windows and a typo',
    network: [['key-auth', 'keyauth']],
    lineEnd: '\r\n',
    answers: ['networks/arb.yaml:9:5: unknown plugin `keyauth` -> did you mean `key-auth`?'],
  },
  {
    mistake: 'a byte order mark and a typo',
    network: [['network: arb', '\ufeffnetwrk: arb']],
    answers: ['networks/arb.yaml:1:1: unknown key `netwrk` -> did you mean `network`?'],
  },
  {
    mistake: 'binary rubbish',
    files: { 'networks/arb.yaml': '\u0000\u0001\u0002' },
    answers: [
      'networks/arb.yaml:1:1: the file must be a map, not "\\u0000\\u0001\\u0002" -> known keys: network, chainId, blockTime, devNode, methods, optional, hosts, pipeline',
    ],
  },
  {
    mistake: 'two documents',
    network: [['timeout: 10s }\n', 'timeout: 10s }\n---\nnetwork: two\n']],
    answers: ['networks/arb.yaml:19:1: a second document begins here; the file must contain one'],
  },
  {
    mistake: 'a list instead of a map',
    files: { 'networks/arb.yaml': '["network", "arb"]\n' },
    answers: [
      'networks/arb.yaml:1:1: the file must be a map, not a list of 2 -> known keys: network, chainId, blockTime, devNode, methods, optional, hosts, pipeline',
    ],
  },
  {
    mistake: 'a file with the extension yml',
    files: { 'networks/arb.yaml': absentFile, 'networks/arb.yml': networkText },
    answers: ['networks/arb.yml:1:1: the file is ignored: its name must end in .yaml -> rename it to arb.yaml'],
  },
  { mistake: 'files with other extensions', files: { 'networks/old.YAML': 'x', 'networks/arb.yaml~': 'x' }, answers: [] },
  {
    mistake: 'a folder named like a file',
    files: { 'networks/foo.yaml/inside.txt': 'x' },
    answers: ['networks/foo.yaml:1:1: this is a directory, not a file'],
  },
  {
    mistake: 'no folder of networks',
    files: { 'networks/arb.yaml': absentFile },
    answers: ['networks:1:1: no network is configured -> write networks/NAME.yaml, or let `tollgate networks add CHAIN_ID` write it'],
  },
  {
    mistake: 'a copied file with the old name in it',
    files: { 'networks/arb2.yaml': networkText },
    answers: [
      'networks/arb2.yaml:1:10: network is "arb", but the file is named arb2.yaml -> write `network: arb2`, or rename the file',
      'networks/arb2.yaml:5:9: duplicate host "arb.rpc.test": already listed at networks/arb.yaml:5:9',
    ],
  },
  {
    mistake: 'a host in two files',
    files: { 'networks/arb2.yaml': edit(networkText, ['network: arb\n', 'network: arb2\n']) },
    answers: ['networks/arb2.yaml:5:9: duplicate host "arb.rpc.test": already listed at networks/arb.yaml:5:9'],
  },
  {
    mistake: 'one chainId in two files',
    files: { 'networks/arb2.yaml': edit(networkText, ['network: arb\n', 'network: arb2\n'], ['arb.rpc', 'arb2.rpc']) },
    answers: [],
  },
  { mistake: 'a file that is no YAML among the networks', files: { 'networks/README.md': 'x' }, answers: [] },
  {
    mistake: 'a colon without a space after it',
    network: [['chainId: 42161', 'chainId:42161']],
    answers: ['networks/arb.yaml:2:1: a key must be followed by a colon on the same line -> a space is missing after the colon'],
  },
  {
    mistake: 'a dash without a space after it',
    network: [['  - key-auth', '-key-auth']],
    answers: ['networks/arb.yaml:9:1: a space is missing after the dash'],
  },
  {
    mistake: 'a no-break space as indentation',
    network: [['  - key-auth', '\u00a0 - key-auth']],
    answers: [
      'networks/arb.yaml:9:1: indentation must be spaces, not U+00A0 -> it looks like a space, and may come from a web page: type a space in its place',
    ],
  },
  {
    mistake: 'a tag for a variable',
    network: [['"http://127.0.0.1:1/own"', '!env ARB_URL']],
    answers: ['networks/arb.yaml:16:29: tags such as !this are not supported -> write "${VAR}" for an environment variable'],
  },
  {
    mistake: 'a variable without quotes in braces',
    network: [['"http://127.0.0.1:1/own"', '${ARB_URL}']],
    answers: [
      'networks/arb.yaml:16:30: unexpected here: indentation, quotes or a comma may be missing before it -> quote a string that contains a variable: "${VAR}"',
    ],
  },
  {
    mistake: 'an en dash before an item',
    network: [['  - key-auth', '  \u2013 key-auth']],
    answers: [
      'networks/arb.yaml:9:3: a list item must begin with -, not U+2013 -> it looks like -, and may come from a web page: type - in its place',
    ],
  },
  {
    mistake: 'a full-width colon',
    network: [['chainId:', 'chainId\uff1a']],
    answers: [
      'networks/arb.yaml:2:1: a key must be followed by a colon, not U+FF1A -> it looks like :, and may come from a web page: type : in its place',
    ],
  },
]
