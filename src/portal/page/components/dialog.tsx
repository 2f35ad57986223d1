import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { hasEnded } from '../session-end.ts'
import { texts } from '../texts.ts'
import { Notice } from './controls.tsx'
import { useSending } from './form.tsx'
import { Icon } from './icon.tsx'

interface DialogProps {
  readonly title: string
  readonly isWide?: boolean
  readonly children: ComponentChildren
  /** By Esc too. */
  onClose(): void
}

/**
 * Stands before the page while it is rendered: nothing behind it can be reached. The keyboard goes on in its first field, and after it where
 * it was before.
 */
export const Dialog = ({ title, isWide = false, children, onClose }: DialogProps) => {
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useLayoutEffect(() => {
    const dialog = element.current
    // Who has to sign in again must reach that: what was typed is kept, out of sight.
    if (hasEnded.value) return undefined
    dialog?.showModal()
    dialog?.querySelector<HTMLElement>('[autofocus], .dialog-content :is(input, select, textarea)')?.focus()
    return () => dialog?.close()
  }, [hasEnded.value])
  // A click beside it, on what is behind.
  const closeFromBackdrop = (event: MouseEvent): void => {
    if (event.target === element.current) onClose()
  }
  return (
    <dialog
      ref={element}
      class={isWide ? 'dialog wide' : 'dialog'}
      aria-labelledby={titleId}
      onMouseDown={closeFromBackdrop}
      onCancel={event => {
        event.preventDefault()
        onClose()
      }}
    >
      <div class="dialog-heading">
        <h2 id={titleId}>{title}</h2>
        <button type="button" class="plain icon-button" aria-label={texts.close} onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <div class="dialog-content">{children}</div>
    </dialog>
  )
}

interface ConfirmDialogProps {
  readonly title: string
  readonly children: ComponentChildren
  /** What is done, on the button. */
  readonly action: string
  /** It can be undone as easily. */
  readonly isHarmless?: boolean
  /** Rejects with RequestError, whose message is shown. */
  confirm(): Promise<unknown>
  onClose(): void
}

/** Asks before something that cannot be undone, or that callers notice. */
export const ConfirmDialog = ({ title, children, action, isHarmless = false, confirm, onClose }: ConfirmDialogProps) => {
  const { error, isSending, sendOnce } = useSending()
  const send = async (): Promise<void> => {
    await confirm()
    onClose()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      {typeof children === 'string' ? <p>{children}</p> : children}
      <Notice text={error.value?.message} />
      <div class="buttons end">
        <button type="button" class="quiet" autofocus onClick={onClose}>
          {texts.cancel}
        </button>
        <button type="button" class={isHarmless ? 'final' : 'danger final'} disabled={isSending.value} onClick={() => sendOnce(send)}>
          {action}
        </button>
      </div>
    </Dialog>
  )
}
