import { texts } from '../texts.ts'

interface SkeletonProps {
  /** Lines of a text or rows of a table; one block of this height, in rem, where that is given. */
  readonly lines?: number
  readonly height?: number
}

/** In the place of what is on its way, as large as that will be: nothing moves when it arrives. */
export const Skeleton = ({ lines = 6, height }: SkeletonProps) => (
  <div
    class={height === undefined ? 'skeleton' : 'skeleton block'}
    style={height === undefined ? undefined : { height: `${height}rem` }}
    aria-busy="true"
  >
    {Array.from({ length: height === undefined ? lines : 1 }, (_, i) => (
      <span key={i} />
    ))}
    <p class="unseen">{texts.loading}</p>
  </div>
)
