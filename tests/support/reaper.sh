# Ends what a test process started when that process is gone, in whatever way it went.
#
# The owner holds the write end of the pipe on stdin for as long as it lives and never closes it, so the end of file means
# that the owner has died. Until then it says, one command a line:
#   + PGID   a process group was started (the new process says it itself, before it runs the program)
#   k PGID   kill it now, or what is left of it
#   d PATH   a folder to remove at the end
#   r PATH   remove it now
groups=" "

forget() {
    case "$groups" in
    *" $1 "*) groups="${groups%%" $1 "*} ${groups#*" $1 "}" ;;
    esac
}

remove() {
    # A killed process may still be writing for a moment.
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf -- "$1" 2>/dev/null && return
        sleep 0.1
    done
}

while read -r verb argument; do
    case "$verb" in
    +) groups="$groups$argument " ;;
    k)
        kill -s KILL -- "-$argument" 2>/dev/null
        forget "$argument"
        ;;
    d) set -- "$@" "$argument" ;;
    r) remove "$argument" ;;
    esac
done

for group in $groups; do
    kill -s KILL -- "-$group" 2>/dev/null
done
for folder in "$@"; do
    remove "$folder"
done
