import { useSignal } from '@preact/signals'
import type { NetworkJson } from '../../routes/networks.ts'
import { CopyText, Notice } from '../components/controls.tsx'
import type { SecretProps } from '../components/controls.tsx'
import { Icon } from '../components/icon.tsx'
import { showToast } from '../components/toast.tsx'
import { Facts } from '../components/facts.tsx'
import { developerTexts } from './developer-texts.ts'

const text = developerTexts.wallet

/** EIP-1193, which extensions of browsers add to the page. */
interface Wallet {
  request(call: { readonly method: string; readonly params: readonly unknown[] }): Promise<unknown>
}

const findWallet = (): Wallet | undefined => (globalThis as { readonly ethereum?: Wallet }).ethereum

/** What pays for transactions, where that is not ether. */
const currencies: Readonly<Record<number, string>> = { 56: 'BNB', 100: 'xDAI', 137: 'POL', 43114: 'AVAX' }

const symbolOf = (chainId: number): string => currencies[chainId] ?? 'ETH'

interface AddToWalletProps extends SecretProps {
  readonly network: NetworkJson
  /** With the key. */
  readonly url: string
}

/** Adds the network to the wallet of the browser, with the key (EIP-3085); or says what to type there. */
export const AddToWallet = ({ network: { name, chainId }, url, ...secretProps }: AddToWalletProps) => {
  const error = useSignal<string | undefined>(undefined)
  const wallet = findWallet()
  const symbol = symbolOf(chainId)
  const add = async (): Promise<void> => {
    const chain = {
      ...{ chainId: `0x${chainId.toString(16)}`, chainName: name, rpcUrls: [url] },
      nativeCurrency: { name: symbol, symbol, decimals: 18 },
    }
    try {
      await wallet?.request({ method: 'wallet_addEthereumChain', params: [chain] })
      error.value = undefined
      showToast(text.added)
    } catch (reason) {
      error.value = `${text.refused} ${(reason as { readonly message?: string }).message ?? ''}` // wallets throw objects with a message
    }
  }
  return (
    <>
      <Facts
        of={[
          [text.name, name],
          [developerTexts.networks.chainId, String(chainId)],
          [text.symbol, symbol],
        ]}
      />
      <p>
        <CopyText text={url} label={text.url} {...secretProps} />
      </p>
      <Notice text={error.value} />
      {wallet === undefined ? (
        <p class="lead">{text.noWallet}</p>
      ) : (
        <button type="button" onClick={() => void add()}>
          <Icon name="wallet" />
          {text.add}
        </button>
      )}
    </>
  )
}
