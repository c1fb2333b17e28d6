// SPDX-License-Identifier: MIT
// A tour of positional encodings on the words of a text, in the terminal and in one offline page.
#include "chapters.hpp"
#include "error.hpp"
#include "files.hpp"
#include "options.hpp"
#include "sample.hpp"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Section {
  const char* title;
  void (*show)(tour::Tour&);
};

struct Chapter {
  const char* title;
  std::vector<Section> sections;
};

std::vector<Chapter> chapters() {
  using namespace tour;
  return {
      {"What runs, on what, at what price",
       {{"Build, text and shapes", show_build_and_shapes},
        {"Where each encoding enters", show_where_position_enters},
        {"Parameters", show_parameters},
        {"The encodings compared", show_comparison}}},
      {"Added to the embeddings",
       {{"Integer and binary, and why they fail", show_integer_and_binary},
        {"Sinusoidal", show_sinusoidal},
        {"Sinusoidal on a grid", show_sinusoidal_2d},
        {"The path of the positions", show_path_of_positions},
        {"A learned table and its resize", show_learned}}},
      {"Queries and keys turned: RoPE",
       {{"RoPE: cos and sin", show_rope_tables},
        {"RoPE: its spectrum", show_rope_spectrum},
        {"RoPE: curves by dimension", show_rope_curves},
        {"RoPE: one vector at several positions", show_rotated_vector},
        {"RoPE: arrows of a rotation", show_rotation_arrows},
        {"RoPE: scores depend on the distance alone", show_relative_scores},
        {"RoPE on a grid: two axes", show_rope_on_grid},
        {"M-RoPE: text and pictures in one prompt", show_mrope},
        {"xPos: RoPE that fades", show_xpos}}},
      {"Longer than trained",
       {{"Wavelengths before and after scaling", show_scaled_wavelengths},
        {"Angles past the trained length", show_angles_past_training},
        {"Trained on 64 tokens, run on 128", show_length_extrapolation},
        {"Trained models on longer texts", show_study}}},
      {"A bias on the scores",
       {{"ALiBi: the bias of each head", show_alibi_bias},
        {"ALiBi: slopes", show_alibi_slopes},
        {"T5, KERPLE and FIRE beside ALiBi", show_learned_biases}}},
      {"In attention",
       {{"Attention patterns", show_attention_patterns},
        {"Two dogs: the permutation experiment", show_permutation},
        {"A causal mask leaks position", show_causal_leakage},
        {"Decoding from a cache", show_cached_decoding}}},
      {"What to expect of an encoding",
       {{"How alike positions look", show_position_similarity},
        {"Six wished properties", show_properties},
        {"Accuracy of the angles", show_accuracy}}},
  };
}

void show_all(const std::vector<Chapter>& all, tour::Tour& tour) {
  for (const Chapter& chapter : all) {
    tour.report.chapter(chapter.title);
    for (const Section& section : chapter.sections) {
      tour.report.section(section.title);
      section.show(tour);
    }
  }
}

int run(const tour::Options& options) {
  const auto text = options.text.empty() ? tour::default_text() : options.text;
  const tour::Sample sample = tour::read_sample(text);
  const tour::Gnuplot gnuplot(options.out / "pictures");
  if (!gnuplot.installed()) {
    std::cerr
        << "gnuplot was not found, so no pictures are drawn; install it (package gnuplot-nox) "
           "and run the tour again. Everything else follows.\n";
  }
  const std::vector<Chapter> all = chapters();
  std::size_t sections = 0;
  for (const Chapter& chapter : all) sections += chapter.sections.size();
  tour::Report report(std::cout, gnuplot, sections);
  tour::Tour tour{sample, report};
  show_all(all, tour);

  const auto page = options.out / "report.html";
  report.write(page, "A tour of posenc: where position enters attention");
  std::cout << "\nPage:     " << page.string() << "\nPictures: " << gnuplot.folder().string()
            << " (" << report.drawn() << " drawn; beside each its data and its script)"
            << std::endl;
  if (report.failed() == 0) return EXIT_SUCCESS;
  std::cerr << "gnuplot failed on " << report.failed() << " pictures; its messages are above\n";
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tour::Options options = tour::parse_options({argv + 1, argv + argc});
    if (options.help) {
      std::cout << tour::usage();
      return EXIT_SUCCESS;
    }
    return run(options);
  } catch (const tour::UsageError& error) {
    std::cerr << "posenc_tour: " << error.what() << "\n\n" << tour::usage();
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "posenc_tour: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
