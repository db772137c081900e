#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/mccsctl/commands.h"

namespace mccs {
namespace {

constexpr char kHead[] = R"bash(# bash completion of mccsctl. Load it with:
#   source <(mccsctl completion bash)

_mccsctl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command= words= kind= i
  # The subcommands so far; other words are options or values.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)bash";

constexpr char kAfterCommands[] = R"bash(        command="$command ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$before" in
    -o | --output)
      words='table wide json yaml'
      [[ $command == ' trace communicator' ]] && words="$words chrome"
      ;;
    -f | --filename) return ;; # files
    --controller | --interval | --limit | --operations | --reason | --timeout) return ;;
    *)
      case "$command" in
)bash";

constexpr char kTail[] = R"bash(      esac
      ;;
  esac
  if [[ -n $kind && $word != -* ]]; then
    words="$words $(mccsctl get "$kind" 2>/dev/null | sed -n -e '/^$/q' -e '2,$s/ .*//p')"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _mccsctl mccsctl
)bash";

struct Command {
  std::string path;  // " get hosts"
  const CLI::App* app;
};

void Collect(const CLI::App& app, const std::string& path, std::vector<Command>* commands) {
  commands->push_back({path, &app});
  for (const CLI::App* child : app.get_subcommands({})) {
    Collect(*child, absl::StrCat(path, " ", child->get_name()), commands);
    for (const std::string& alias : child->get_aliases()) {
      commands->push_back({absl::StrCat(path, " ", alias), child});
    }
  }
}

std::vector<std::string> CompletionsAfter(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* child : app.get_subcommands({})) words.push_back(child->get_name());
  // Options of the program are valid after every command.
  for (const CLI::App* level = &app; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options()) {
      const bool program_only =
          level->get_parent() == nullptr && level != &app && option->check_lname("version");
      for (const std::string& name : option->get_lnames()) {
        const bool again = level != &app && name == "help";
        if (!program_only && !again) words.push_back("--" + name);
      }
    }
  }
  return words;
}

// The subcommand of `mccsctl get` that lists the names which may follow; empty: no names follow.
std::string KindAfter(const CLI::App& app) {
  const bool takes_name = app.get_option_no_throw("NAME") != nullptr;
  if (!takes_name) return "";
  const std::string& name = app.get_name();
  for (const auto& [one, many] : {std::pair<const char*, const char*>{"tenant", "tenants"},
                                  {"policy", "policies"},
                                  {"topology", "topologies"},
                                  {"drain", "drains"}}) {
    if (name == one || name == many) return many;
  }
  return "";
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::vector<Command> commands;
  Collect(app, "", &commands);
  std::vector<std::string> patterns;
  std::string cases;
  for (const Command& command : commands) {
    if (!command.path.empty()) patterns.push_back(absl::StrCat("'", command.path, "'"));
    absl::StrAppend(&cases, "        '", command.path, "')\n          words='",
                    absl::StrJoin(CompletionsAfter(*command.app), " "), "'\n");
    const std::string kind = KindAfter(*command.app);
    if (!kind.empty()) absl::StrAppend(&cases, "          kind=", kind, "\n");
    absl::StrAppend(&cases, "          ;;\n");
  }
  return absl::StrCat(kHead, "      ", absl::StrJoin(patterns, " | \\\n        "), ")\n",
                      kAfterCommands, cases, kTail);
}

}  // namespace mccs
