import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import type { BlockAnswers, JsonMembers } from './verify-fixture.ts'

// Blocks of public networks, as their nodes return them. That nothing of them was changed, their hashes and roots show.

const counterLog = (count: string) => ({
  address: '0xf878f0340bf132c28f3211e8b46c569edf817495',
  topics: ['0xfaddd0b06e793a583e92393ad3f98637e560462ee98db1f2888f141124ee64ca'],
  data: `0x${count.padStart(64, '0')}`,
})

/** Of each transaction: what it has beside the others, and the gas that the block has used behind it, and its log. */
const unichainTransactions: readonly { readonly members: JsonMembers; readonly gas: string; readonly counter?: string }[] = [
  {
    members: {
      type: '0x7e',
      depositReceiptVersion: '0x1',
      from: '0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001',
      gas: '0xf4240',
      gasPrice: '0x0',
      hash: '0x613834aaeeb676fb45e312531c0cac40485a2c1b7b8ad8d648e5034dddfb5f03',
      input:
        '0x098999be000007d0000dbba0000000000000000800000000690be848000000000092042e000000000000000000000000000000000000000000000000000000000000000900000000000000000000000000000000000000000000000000000000000000010ffd7e2fb2c36e5f27c015872ce733a7b4f3fc0f4ee668d7469c557c48f8250f0000000000000000000000004ab3387810ef500bfe05a49dc53a44c222cbab3e000000000000000000000000',
      mint: '0x0',
      nonce: '0x21e3b52',
      r: '0x0',
      s: '0x0',
      sourceHash: '0x35dd2ec802504a143048c7830f8f570e0d6cf5147217af869939c6b4ba710a36',
      to: '0x4200000000000000000000000000000000000015',
      v: '0x0',
      value: '0x0',
    },
    gas: '0xb41c',
  },
  {
    members: {
      gas: '0x5578',
      hash: '0x89f7852587dca7dd2f31b02f3a93f47669a82784025d607ec7c336b66af84a19',
      input: '0x426c6f636b204e756d6265723a203335353335363938',
      nonce: '0x1c8ea91',
      r: '0x91f83058c881d9ad71c179ce680326501702eb68150d20b2bf7786e388f954a2',
      s: '0x180185d83e503f11bf3c265c1f9296ed8d3d7c04031cd8bb30509ad188ce7bbc',
      to: '0x0000000000000000000000000000000000000000',
      v: '0x0',
      yParity: '0x0',
    },
    gas: '0x10994',
  },
  {
    members: {
      hash: '0x8416aa3bb024ea5dce8fc00d21a500df4e782743bdf245589b5aba920324df11',
      nonce: '0x1c8ea92',
      r: '0xd73ce313aafea312e0b7244767e45f8b05d50305e0f4e4c3c564ddc751666815',
      s: '0x2ee015ce2363311823c0b2e96bfb0e8090fd53c6cdd99be8cf343af123036dfc',
      v: '0x1',
      yParity: '0x1',
    },
    gas: '0x18f7d',
    counter: '29ac5c',
  },
  {
    members: {
      hash: '0x9afeb04e8858ec2c17d1f6543fc3c00772ef05a7177733770c186cee02c67112',
      nonce: '0x1c8ea93',
      r: '0xf8cd94080642e116bc772f36a02d002505227aa542e1c13e5129ab40b8b037fb',
      s: '0x608318d3895388e39b218bcb275380cebc566e68f26d3d434e32b8b58366cdf',
      v: '0x1',
      yParity: '0x1',
    },
    gas: '0x21566',
    counter: '29ac5d',
  },
  {
    members: {
      hash: '0x68e4cb3cafd045680f66411af5c22bd4f239972551c668fde34fb495a07c06e7',
      nonce: '0x1c8ea94',
      r: '0x4368492ec1d087703aaf6f5fefe4427b3bf382e5cd07133f638bb6701f15fe61',
      s: '0x5e28757fbdc7e744118be36d5a1548eb7c009eefcb5dc5c5040e09c2fc6de9d8',
      v: '0x0',
      yParity: '0x0',
    },
    gas: '0x29b4f',
    counter: '29ac5e',
  },
  {
    members: {
      hash: '0x6d65b11050eee84c3f492106ca95057825d34274b5ca9bcf533885a7ff238d39',
      nonce: '0x1c8ea95',
      r: '0x802ba6d4f37e3b8de96095bd0b216144f276171d16dc62a004f1a89009af5dee',
      s: '0xf0c6250cfd1a062a1bc2bc353a5c227a980cac0f233b7be8932f2192342ec4f',
      v: '0x0',
      yParity: '0x0',
    },
    gas: '0x32138',
    counter: '29ac5f',
  },
]

/** Most transactions of the block are like this one. */
const counterTransaction = {
  type: '0x2',
  accessList: [],
  chainId: '0x515',
  from: '0xc0043c50ba044a5f948d32faed806913d781d428',
  gas: '0x8809',
  gasPrice: '0x33',
  input: '0x3fd553e8',
  maxFeePerGas: '0x33',
  maxPriorityFeePerGas: '0x0',
  to: '0xf878f0340bf132c28f3211e8b46c569edf817495',
  value: '0x0',
}

/** Block 35,535,698 of Unichain Sepolia: of the OP stack with its fork Isthmus, where the root of withdrawals is of something else. */
export const unichainBlock = (): BlockAnswers => {
  const hash = '0xc463a3120c35268f610d969f5608b479332ef10953af77c7a6be806195831196'
  const place = { blockHash: hash, blockNumber: '0x21e3b52' }
  const transactions = unichainTransactions.map(({ members }, i) => ({
    ...(members['type'] === undefined && counterTransaction),
    ...members,
    ...place,
    transactionIndex: toHexQuantity(i),
  }))
  let logIndex = 0
  const receipts = unichainTransactions.map(({ gas, counter, members }, i) => {
    const { type, from, to, gasPrice } = transactions[i] as JsonMembers
    const placed = { ...place, transactionIndex: toHexQuantity(i), transactionHash: members['hash']! }
    const logs = counter === undefined ? [] : [{ ...counterLog(counter), ...placed, logIndex: toHexQuantity(logIndex++), removed: false }]
    return {
      ...{ type: type!, status: '0x1', from: from!, to: to!, contractAddress: null, effectiveGasPrice: gasPrice! },
      ...{ cumulativeGasUsed: gas, gasUsed: toHexQuantity(Number(gas) - Number(unichainTransactions[i - 1]?.gas ?? 0)) },
      ...(type === '0x7e' && { depositNonce: '0x21e3b52', depositReceiptVersion: '0x1' }),
      ...placed,
      logs,
      logsBloom: logsBloomOf(logs),
    }
  })
  const logs = receipts.flatMap(receipt => receipt.logs)
  const header = {
    baseFeePerGas: '0x33',
    blobGasUsed: '0x0',
    difficulty: '0x0',
    excessBlobGas: '0x0',
    extraData: '0x00000000320000000c',
    gasLimit: '0x3938700',
    gasUsed: '0x32138',
    hash,
    logsBloom: logsBloomOf(logs),
    miner: '0x4200000000000000000000000000000000000011',
    mixHash: '0x8beee738d20a9d77c5f27e9cb799ebe5b536f0985efad5f7d77ebff47f092c4a',
    nonce: '0x0000000000000000',
    number: '0x21e3b52',
    parentBeaconBlockRoot: '0xf6d335a6b2b4fd8fb539cd51a49769df4d53c31a90c54dd270e54542638ff101',
    parentHash: '0x06ff95a9cd23b0328da74a984aa986b2e01d377dab1825f1029e39ece6c4a3ea',
    receiptsRoot: '0x588e1d47b0618d7e935b20c3945cba3b7b8c00141904f79ceed20312ea502e63',
    requestsHash: '0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
    size: '0x5c8',
    stateRoot: '0x5615e4342d231c352438f0ba6a8f0f641459f67961961764b781a909969b28ad',
    timestamp: '0x690be89e',
    transactionsRoot: '0x3dc5956bbd482687508f25d0e057282192067bb0eb80b2ac869320ef7f45cdeb',
    uncles: [],
    withdrawals: [],
    withdrawalsRoot: '0x62ed62e0391b081bf172f287fbbe75e87d8a6c22f1d3b1f1aef4788c134633d2',
  }
  const block = { ...header, transactions: transactions.map(each => (each as JsonMembers)['hash']!) }
  return { block, fullBlock: { ...header, transactions: transactions as readonly JsonMembers[] }, receipts, logs }
}

const noLogs = logsBloomOf([])

/** Block 8,381,743 of OP Goerli: with its fork Regolith, and before Canyon. Its only receipt, which was not recorded, follows from the header; its root shows that. */
export const opGoerliBlock = (): BlockAnswers => {
  const hash = '0x2e4f4aff36bb7951be9742ad349fb1db84643c6bbac5014f3d196fd88fe333eb'
  const place = { blockHash: hash, blockNumber: '0x7fe52f', transactionIndex: '0x0' }
  const [from, to] = ['0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001', '0x4200000000000000000000000000000000000015']
  const transactionHash = '0x661df2908a63c9701ef4f9bc1d62432f08cbdc8c6fe6012af49405c00de5f69d'
  const transaction: JsonMembers = {
    type: '0x7e',
    from,
    to,
    gas: '0xf4240',
    gasPrice: '0x0',
    hash: transactionHash,
    input:
      '0x015d8eb900000000000000000000000000000000000000000000000000000000008768240000000000000000000000000000000000000000000000000000000064443450000000000000000000000000000000000000000000000000000000000000000e0444c991c5fe1d7291ff34b3f5c3b44ee861f021396d33ba3255b83df30e357d00000000000000000000000000000000000000000000000000000000000000050000000000000000000000007431310e026b69bfc676c0013e12a1a11411eec9000000000000000000000000000000000000000000000000000000000000083400000000000000000000000000000000000000000000000000000000000f4240',
    mint: '0x0',
    nonce: '0x41ed06',
    r: '0x0',
    s: '0x0',
    sourceHash: '0x34ad504eea583add76d3b9d249965356ef6ca344d6766644c929357331bb0dc9',
    v: '0x0',
    value: '0x0',
    ...place,
  }
  const receipt = {
    ...{ type: '0x7e', status: '0x1', from, to, contractAddress: null, effectiveGasPrice: '0x0', transactionHash },
    ...{ cumulativeGasUsed: '0xb711', gasUsed: '0xb711', depositNonce: '0x41ed06' },
    ...place,
    logs: [],
    logsBloom: noLogs,
  }
  const header = {
    baseFeePerGas: '0x32',
    difficulty: '0x0',
    extraData: '0x',
    gasLimit: '0x17d7840',
    gasUsed: '0xb711',
    hash,
    logsBloom: noLogs,
    miner: '0x4200000000000000000000000000000000000011',
    mixHash: '0x7aeec5550a9b0616701e49ab835af5f10eadba2a0582016f0e256c9cace0c046',
    nonce: '0x0000000000000000',
    number: '0x7fe52f',
    parentHash: '0xeccf4c06ad0d27be1cadee5720a509d31a9de0462b52f2cf6045d9a73c9aa504',
    receiptsRoot: '0x29079b696c12a19999f3bb303fddb6fc12fb701f427678cca24954b91080ada3',
    sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
    size: '0x365',
    stateRoot: '0x5905b2423f299a29db41e377d7ceadf4baa49eed04e1b72957e8c0985e04e730',
    timestamp: '0x644434c2',
    totalDifficulty: '0x0',
    transactionsRoot: '0x030e481411042a769edde83d790d583ed69f9d3098d4a78d00e008f749fcfd97',
    uncles: [],
  }
  return {
    block: { ...header, transactions: [transactionHash] },
    fullBlock: { ...header, transactions: [transaction] },
    receipts: [receipt],
    logs: [],
  }
}

/** Block 16,464,264 of Arbitrum One, from before Nitro, with its receipt. */
export const arbitrumClassicBlock = (): Pick<BlockAnswers, 'fullBlock'> & { readonly receipts: readonly JsonMembers[] } => {
  const hash = '0x4bdcb70f92ad97174eee27e9222d555ed184a11e25fcce551a34d56304216ded'
  const place = { blockHash: hash, blockNumber: '0xfb3988', transactionIndex: '0x0' }
  const [from, to] = ['0xa2063a205c6ce5df0163f2295d9fc94d1a624e4b', '0xa3af00a4ca8a11b840b1cb190d1c1d66da1546fc']
  const transactionHash = '0x62b7f8049679e7509ace9ed2e58579b83c8670d73f467a1e1cfa95076033c76a'
  const transaction = {
    type: '0x78',
    from,
    to,
    gas: '0xd0bc',
    gasPrice: '0x30783134626639633464372e3333333333333333333333333333333333333333',
    hash: transactionHash,
    input: '0x',
    nonce: '0x2',
    r: '0x11208fb89d76cbeb969ba0f80f5468272b53a876a34f8e66fe423cb125990781',
    s: '0x295b8be68b7c5d0ee9fd7ebdc424514267b2eee3ffc44261ccd9b10579ec633a',
    v: '0x14986',
    value: '0x1bc16d674ec80000',
    ...place,
  }
  const receipt = {
    ...{ type: '0x78', status: '0x1', from, to, contractAddress: null, effectiveGasPrice: '0x1051d2b95', transactionHash },
    ...{ cumulativeGasUsed: '0x0', gasUsed: '0xb823', gasUsedForL1: '0xb823', l1BlockNumber: '0xe594b3' },
    ...place,
    logs: [],
    logsBloom: noLogs,
  }
  const fullBlock = {
    difficulty: '0x0',
    extraData: '0x',
    gasLimit: '0xaf23c66',
    gasUsed: '0x0',
    hash,
    l1BlockNumber: '0xe594b3',
    logsBloom: noLogs,
    miner: '0x0000000000000000000000000000000000000000',
    mixHash: `0x${'0'.repeat(64)}`,
    nonce: '0x0000000000000000',
    number: '0xfb3988',
    parentHash: '0xa2eb63c42b739dcee22ce36f9060b9309f4d7728911ee6bacb7ec2681a15cdfd',
    receiptsRoot: '0xf5f7c8ceaa7dbf8aad936af1c22107680d622fc707bfd053a2240aa3cbd83ea3',
    sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
    size: '0x2bd',
    stateRoot: `0x${'0'.repeat(64)}`,
    timestamp: '0x62bc79d0',
    transactions: [transaction],
    transactionsRoot: '0x701c7288a9c3e05e2f95e205e98794711deb5c8f05129ec7c6a7d44ffcc832df',
    uncles: [],
  }
  return { fullBlock, receipts: [receipt] }
}

/** Block 11,856,337 of Sepolia: the first of its fork Glamsterdam, which has added two fields. */
export const sepoliaHeader: JsonMembers = {
  baseFeePerGas: '0x3d7386e5',
  blobGasUsed: '0x80000',
  blockAccessListHash: '0xe6048b5d71a01b46691aa7d24238ba7880b789ae42173cab10a041b72e768a55',
  difficulty: '0x0',
  excessBlobGas: '0xc6e7614',
  extraData: '0x626573752032362e392e31',
  gasLimit: '0x3938700',
  gasUsed: '0xd1dda4',
  hash: '0xa03f956aeb69d3fa234d9894c4309f4bb089cca9b6440cb45066c9ba39222588',
  logsBloom:
    '0x8014a800082084804806100090009a2028220011620000168200608488100546c288100801c811022248210a01200222421950128ec100000c2892242226031a711c0551a00a220002602a58404900c0e00002c06600081121030400948540010a20000122284012608548c102604c1830800040e00c22483468a51004090118a500008009344a0009a080504206014121402041100a20081084004504201641028000810000410a803001480001041e00005000a0d0c1308a40020a02044001490f008601010220003d04004ba2000252120200040880384000800001c0694000d0101900b01810ac4814002ca0800450001800884500400207080200010208',
  miner: '0x3826539cbd8d68dcf119e80b994557b4278cec9f',
  mixHash: '0x4ba9dfc9ce033a38b9f2d6d4b549e4b3a398dbcd8dd7c514d944f42c9a1a4405',
  nonce: '0x0000000000000000',
  number: '0xb4e9d1',
  parentBeaconBlockRoot: '0xa982af12aa814307469427e140dd62cf6b6cbbcf0539fbab10336132e47b0743',
  parentHash: '0x862fbae116b7dca00b550ad371540de5ec8f627065bead949809ee6228b8f3eb',
  receiptsRoot: '0x636dbd7afafef168dee179457d140e251ddb3c203596d148338d1ee813f1f034',
  requestsHash: '0xec88bf0d3fe6b86b583cf638c5635cb64bc842fee1e220f0e8be964a4d368c15',
  sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
  slotNumber: '0xac6000',
  stateRoot: '0xfa3dce0649b084038be0d2e88b0740fdd50631fc32109c0f7766fa242baf2c39',
  timestamp: '0x6ac4fd60',
  transactionsRoot: '0x4370e25f6d627e5e9efca9cb5405f38c5ae86043e5b400ea92992d51aba12b6c',
  withdrawalsRoot: '0x5127063b341e2ad8b2236316204563d3025b6b9b61290fec666a0a0bba4286a7',
}

const arbitrumHeader = {
  difficulty: '0x1',
  gasLimit: '0x4000000000000',
  miner: '0xa4b000000000000000000073657175656e636572',
  sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
  uncles: [],
}

/** Blocks of Arbitrum One, from 2023 and 2026. */
export const arbitrumBlocks: readonly JsonMembers[] = [
  {
    ...arbitrumHeader,
    baseFeePerGas: '0x5f5e100',
    extraData: '0xd79c44e4c3397b74b78db0ea2d34c1106d8bae0752d6e352a859ae27185dec62',
    gasUsed: '0xa0d72',
    hash: '0x17eb19de07bacbcc2a3961b8281c744707d38d7f2d10afac2f36f3bd94070c22',
    l1BlockNumber: '0x10924a9',
    logsBloom:
      '0x04000000000000000000000000000000000000000400100000200000000000000000000000000000000000000000000008000000000000000000000000000008000000000000000000000008000000000000000000000000000000000000000000000000000000000000000000000000010000000000000000000010000000000000000010010000080000000000000000000000000000000000002000400000000400000000000000000100000000000000000000000000000000000000800000000002000000000000000000000000000000000000000000000000000000000000000000000000000000200000000000000000408000000000000000000000',
    mixHash: '0x000000000001310800000000010924a9000000000000000a0000000000000000',
    nonce: '0x00000000000d7b9a',
    number: '0x5bc416c',
    parentHash: '0x4c11af32100851b47105994d3758551f9f4251eec103b0eab62f10e5412f7a65',
    receiptsRoot: '0x05e9dc74ff5689786374a4a32a71fb16c799f13bfc2a17658358ef1d702f5e47',
    sendCount: '0x13108',
    sendRoot: '0xd79c44e4c3397b74b78db0ea2d34c1106d8bae0752d6e352a859ae27185dec62',
    size: '0x36f',
    stateRoot: '0xb2e63e08d3af6de03e47794664f0a1fd8e1e17c32163a7a15cc146d513d7719a',
    timestamp: '0x6476ca1e',
    totalDifficulty: '0x4696424',
    transactions: [
      '0xf5254836c09ee25314eff6f19b87d4de6b32adedb2196067065c4b9b12b8385a',
      '0xcb27bd4d0715eb26077c7db009f466a43ed5da1c6de6e00421135bf946842fc1',
    ],
    transactionsRoot: '0xe7ddc381c9baa2d8eb860080831fa7546f025581ddd3f7cbaa72ab03dc13cc8e',
  },
  {
    ...arbitrumHeader,
    baseFeePerGas: '0x1312d00',
    extraData: '0x5415fe5b5fa72ff4ecaf578e7346f9ef8942c832a0f5564f05d8511e3576b334',
    gasUsed: '0x3d721',
    hash: '0x9f2a4542dcd73b3b7312c2b57ebf79e61dbcd36906c7e8ed500f56ea199fa803',
    l1BlockNumber: '0x18ea3d7',
    logsBloom:
      '0x00001000000000000000000008000000000000000004000000000000000000000000000000000000000080000000000000080201000020100000000000000000000000000200000840000408000000000000000010000040002000000000000000800000000000000000000004100000000000000000000000000012000800000000000000000000000000000001000000000400000000000000001000000000000000000000000000000000000004000000000200000000008000000000000000002002000040200000000000000000000000000000000000000000000000000000200000000000000000000000200000000000000000000000000020000000',
    mixHash: '0x0000000000028aef00000000018ea3d7000000000000003d0001000000000000',
    nonce: '0x00000000002770e4',
    number: '0x1e82b4ad',
    parentHash: '0xa31635fa277ca0ea0481d09fc59d1ca55b84b2a12e6c04384ce7532962b8b698',
    receiptsRoot: '0x4bbc51c714c0499f97f4a4473864495eff600e521f9848f47a935b6c6422d82f',
    sendCount: '0x28aef',
    sendRoot: '0x5415fe5b5fa72ff4ecaf578e7346f9ef8942c832a0f5564f05d8511e3576b334',
    size: '0x502',
    stateRoot: '0x0af9d8afcffe1a8edabe67d676b274dc5642ccfbe938b935cab5a245bfc4b2da',
    timestamp: '0x6ac36dbd',
    transactions: [
      '0x6d7794b53cf25759c2824c31ee11fc2a682b0fbe69c6bf0da6335b440352e727',
      '0x8b2a0a41fac59f0ccbd3a446f0d8e9da2f57f05e39969c0cc6ae77a980db55e9',
      '0x8d7fd7cdace604327b7a28a4a31a1482e31eec0a727a7d69d1097d2fa53c023c',
      '0x71b35fa3abbd64420b404d77068394f7db2f868b80b224b1615628066f28ce1d',
    ],
    transactionsRoot: '0x21cd50773adc2f667e9862eb9da63da3644a0c3631931681d00972a7ef350e74',
  },
]
